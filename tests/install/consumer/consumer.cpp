#include <cstdio>
#include <tessera/tessera.hpp>

int main() {
  float q[2] = {1, 2}, k[2] = {1, 0}, v[2] = {10, 20}, o[2];
  tessera::Status status = tessera::attend({.query = tessera::tensor(q, {1, 1, 2, 1}),
                                            .key = tessera::tensor(k, {1, 1, 2, 1}),
                                            .value = tessera::tensor(v, {1, 1, 2, 1}),
                                            .output = tessera::tensor(o, {1, 1, 2, 1})},
                                           tessera::cpu());
  std::printf("%s %.5f %.5f\n", status ? "ok" : status.message().c_str(), o[0], o[1]);
  return status && o[0] > 12.6894f && o[0] < 12.6895f ? 0 : 1;  // (10e + 20) / (e + 1)
}
