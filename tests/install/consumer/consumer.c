#include <stdio.h>
#include <tessera/tessera.h>

int main(void) {
  float q[2] = {1, 2}, k[2] = {1, 0}, v[2] = {10, 20}, o[2] = {0, 0};
  tessera_attention problem = TESSERA_ATTENTION_INIT;
  tessera_device cpu = TESSERA_DEVICE_INIT;
  problem.query = tessera_tensor_4d(q, TESSERA_F32, 1, 1, 2, 1);
  problem.key = tessera_tensor_4d(k, TESSERA_F32, 1, 1, 2, 1);
  problem.value = tessera_tensor_4d(v, TESSERA_F32, 1, 1, 2, 1);
  problem.output = tessera_tensor_4d(o, TESSERA_F32, 1, 1, 2, 1);
  if (tessera_attend(&problem, &cpu) != TESSERA_OK) {
    puts(tessera_last_error());
    return 1;
  }
  printf("ok %.5f %.5f\n", o[0], o[1]);
  return o[0] > 12.6894f && o[0] < 12.6895f ? 0 : 1; /* (10e + 20) / (e + 1) */
}
