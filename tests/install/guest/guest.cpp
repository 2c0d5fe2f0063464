// Built with -ffast-math, which also makes this thread flush subnormal numbers to 0; the library must not
// mind.
#include <bit>
#include <cstdint>
#include <cstdio>
#include <tessera/tessera.hpp>

int main() {
  float q[2] = {1, 2}, k[2] = {1, 0}, v[2] = {10, 20}, o[2] = {}, lse[2] = {};
  tessera::Attention problem{.query = tessera::tensor(q, {1, 1, 2, 1}),
                             .key = tessera::tensor(k, {1, 1, 2, 1}),
                             .value = tessera::tensor(v, {1, 1, 2, 1}),
                             .output = tessera::tensor(o, {1, 1, 2, 1}),
                             .lse = tessera::tensor(lse, {1, 1, 2}),
                             .scale = 0.0f,
                             .mask = tessera::causal_top_left()};
  if (!tessera::attend(problem, tessera::cpu())) return 1;
  std::printf("scale 0: %.5f %.5f\n", o[0], o[1]);
  if (o[0] != 10.0f || o[1] != 15.0f) return 1;
  q[1] = std::bit_cast<float>(std::uint32_t{0x7fc00000});  // NaN, which this compiler believes there is not
  problem.scale = 1.0f;
  if (!tessera::attend(problem, tessera::cpu())) return 1;
  const bool nan = (std::bit_cast<std::uint32_t>(o[1]) & 0x7fffffff) > 0x7f800000;
  std::printf("a NaN query: %.5f, %s\n", o[0], nan ? "NaN" : "a number");
  return o[0] == 10.0f && nan ? 0 : 1;
}
