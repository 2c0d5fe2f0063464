// memory.hpp in a build without nvcc: no GPU is ever found there, so nothing of this is reached; every
// function says so if it is.
#include "cases/gpu/memory.hpp"

namespace tessera::gpu {
namespace {

core::Status absent() { return {TESSERA_DEVICE_UNAVAILABLE, "this build of Tessera has no CUDA kernels"}; }

}  // namespace

void Release::operator()(void*) const {}
core::Status Memory::allocate(int, std::size_t, Memory*) { return absent(); }
core::Status Memory::upload(const void*, std::size_t, std::size_t) { return absent(); }
core::Status Memory::download(void*, std::size_t, std::size_t) const { return absent(); }
core::Status Memory::fill(unsigned char, std::size_t, std::size_t) { return absent(); }
core::Status synchronize(int) { return absent(); }
core::Status Stream::create(int, Stream*) { return absent(); }
core::Status Stream::synchronize() const { return absent(); }
core::Status Graph::capture(const Stream&, const std::function<core::Status()>&, Graph*) { return absent(); }
core::Status Graph::replay(const Stream&) const { return absent(); }
core::Status Stopwatch::create(int, Stopwatch*) { return absent(); }
core::Status Stopwatch::start(const Stream&) const { return absent(); }
core::Status Stopwatch::stop(const Stream&) const { return absent(); }
core::Status Stopwatch::elapsed_us(double*) const { return absent(); }
core::Status L2Flush::create(int, std::size_t, L2Flush*) { return absent(); }
core::Status L2Flush::flush(const Stream&) const { return absent(); }
core::Status BareLaunch::create(int, BareLaunch*) { return absent(); }
core::Status BareLaunch::launch(const Stream&) const { return absent(); }
GpuState gpu_state(int) { return {}; }

}  // namespace tessera::gpu
