#include "quantise.hpp"

#include "arrays.hpp"
#include "families.hpp"

namespace tessera::python {

bool quantise(PyObject* arguments, int threads, tessera_status* status) {
  PyObject *x = nullptr, *codes = nullptr, *scales = nullptr, *means = nullptr;
  int scale_rows = 0, hadamard = 0;
  if (PyArg_ParseTuple(arguments, "OOOOip", &x, &codes, &scales, &means, &scale_rows, &hadamard) == 0)
    return false;
  View input, output, scale, mean;
  if (!input.read(x, "x", nullptr)) return false;
  tessera_device device = TESSERA_DEVICE_INIT;
  device.kind = input.device().kind;
  device.index = input.device().index;
  if (device.kind == TESSERA_CPU) device.threads = threads;
  if (!current_stream(family_of(x), input.device(), &device.stream)) return false;
  if (!output.read_writable(codes, "codes", device.stream)) return false;
  if (!scale.read_writable(scales, "scales", device.stream)) return false;
  if (means != Py_None && !mean.read_writable(means, "means", device.stream)) return false;
  tessera_quantisation q = TESSERA_QUANTISATION_INIT;
  q.input = input.tensor();
  q.output = output.tensor();
  q.scales = scale.tensor();
  q.means = mean.tensor();
  q.scale_rows = scale_rows;
  q.hadamard = hadamard;
  Py_BEGIN_ALLOW_THREADS;
  *status = tessera_quantise(&q, &device);
  Py_END_ALLOW_THREADS;
  return true;
}

}  // namespace tessera::python
