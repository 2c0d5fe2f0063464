// A block of the wgmma kernel on the host: a machine that runs the producer and the consumers as they are,
// one warp at a time and in an order that chance decides, with copies that land and barriers that complete as
// they would on a GPU. It knows what is in every kilobyte of shared memory and fails where a product reads
// what has not landed, where a copy overwrites what is being read, and where nobody can go on.
//
// The headers beside this one stand in for those of the same name under src/cuda; they call the machine where
// the real ones have PTX.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

// Device code, compiled for the host.
#define __device__
struct int2 {
  int x, y;
};
inline int2 make_int2(int x, int y) { return {x, y}; }
struct ThreadPlace {
  unsigned x;
};
inline ThreadPlace threadIdx, blockIdx, gridDim;
inline void __syncwarp() {}
inline int __shfl_sync(unsigned, int x, int) { return x; }  // a warp is one thread here
inline int __popc(unsigned x) { return __builtin_popcount(x); }
struct __half {
  unsigned short bits;
};
using std::max;
using std::min;

namespace tessera::testing_cuda {

// What a copy brings, or a product reads.
struct Piece {
  enum Kind { nothing, query, key, value, mask } kind = nothing;
  int row = 0, head = 0, batch = 0;
  bool operator==(const Piece&) const = default;
};

// A product: what its operands were, and in how many steps it was computed.
struct Product {
  Piece a, b;  // a: of Q; P comes from registers
  int steps = 0;
};

class Machine {
 public:
  explicit Machine(unsigned seed) : random_(seed) {}

  // --- The block.
  void place(const void* shared_memory) { base_ = static_cast<const char*>(shared_memory); }
  unsigned address(const void* pointer) const {
    return static_cast<unsigned>(static_cast<const char*>(pointer) - base_);
  }
  // pace: how often it is its turn, compared with others.
  void add_warp(unsigned first_thread, double pace, std::function<void()> body) {
    warps_.emplace_back().body = std::move(body);
    warps_.back().first_thread = first_thread;
    warps_.back().pace = pace;
  }
  // Until all warps have ended. What went wrong, or nothing.
  std::string run();

  bool chance(double probability) { return std::uniform_real_distribution<>(0, 1)(random_) < probability; }
  [[noreturn]] void fail(const std::string& what);

  // --- What the warp at work does.
  void perhaps_pause() {
    if (chance(1.0 / 3)) wait_until([] { return true; });
  }
  void wait_until(std::function<bool()> condition);

  struct Barrier {
    int arrivals, pending;
    long bytes;
    unsigned phase;  // phases completed

    void settle() {
      if (pending > 0 || bytes > 0) return;
      pending = arrivals;
      ++phase;
    }
  };
  void start_barrier(unsigned at, int arrivals) { barriers_[at] = {arrivals, arrivals, 0, 0}; }
  Barrier& barrier(unsigned at) {
    const auto found = barriers_.find(at);
    if (found == barriers_.end()) fail("no barrier there");
    return found->second;
  }
  void arrive(unsigned at, int threads, unsigned bytes = 0);
  // A named barrier, of so many threads in all; waits, or just arrives.
  void meet(int id, int threads, bool waits);

  void copy(unsigned to, unsigned bytes, const Piece& piece, unsigned barrier_at);

  // Products are of the warp: each of a warpgroup's four computes its own rows.
  void read(const std::vector<std::pair<unsigned, unsigned>>& addresses_and_bytes, Piece& piece);
  void commit();
  void wait_for_products(std::size_t pending);
  std::vector<Product>& scores() { return warps_[current_].scores; }
  std::vector<Product>& outputs() { return warps_[current_].outputs; }
  // The scores that the warp has now must be those of keys from `key` on.
  void look_at_scores(int key) {
    if (scores().empty() || scores().back().b.row != key) fail("scores were taken for those of other keys");
  }
  std::vector<int>& masked() { return warps_[current_].masked; }
  std::vector<int>& changed() { return warps_[current_].changed; }
  std::vector<int>& shifted() { return warps_[current_].shifted; }
  std::vector<Piece>& applied() { return warps_[current_].applied; }
  // What lies there, all of it; read at once.
  Piece piece_at(unsigned address, int bytes);

 private:
  static constexpr unsigned kUnit = 1024;  // copies and slots are multiples of it

  struct Unit {
    Piece piece;
    bool landing = false;
    int readers = 0;
  };
  struct Warp {
    std::function<void()> body;
    unsigned first_thread = 0;
    double pace = 1;
    ucontext_t context{};
    std::vector<char> stack;
    std::function<bool()> condition;
    bool ended = false;
    std::vector<unsigned> reading;              // units, by products not yet committed
    std::vector<std::vector<unsigned>> groups;  // by those committed
    std::vector<Product> scores, outputs;       // since the last output was written
    std::vector<int> masked, changed, shifted;
    std::vector<Piece> applied;  // of mask tensors
  };
  struct Meeting {
    int arrived = 0;
    unsigned times = 0;
  };

  static void start_current();
  void resume(std::size_t warp);
  void leave() { swapcontext(&warps_[current_].context, &main_); }

  std::mt19937 random_;
  const char* base_ = nullptr;
  std::vector<Warp> warps_;
  std::size_t current_ = 0;
  ucontext_t main_{};
  std::string failure_;
  std::map<unsigned, Barrier> barriers_;
  std::array<Meeting, 16> meetings_{};
  std::array<Unit, 256> units_{};
  std::vector<std::function<void()>> copies_;  // on their way
};

// The one that is running.
inline Machine* machine = nullptr;

}  // namespace tessera::testing_cuda
