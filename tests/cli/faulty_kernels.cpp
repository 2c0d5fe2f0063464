// Takes the place of src/backends.cpp in tessera_faulty: the real kernels, and two that change a single
// output element of an otherwise right result, as a lost tail or a race would. One of them is off by little,
// and its tolerance allows that.
#include <tessera/tessera.h>

#include <memory>

#include "core/plan.hpp"
#include "cpu/backend.hpp"
#include "cuda/backend.hpp"
#include "oracle/oracle.hpp"
#include "tests/support/other_rows.hpp"

namespace tessera::core {
namespace {

// What an honest kernel made of the problem, and then one element that is wrong.
class Faulty final : public Prepared {
 public:
  Faulty(std::shared_ptr<const Prepared> honest, const Problem& problem, double error)
      : Prepared(*honest), honest_(std::move(honest)), problem_(problem), error_(error) {}

  std::string words() const override { return honest_->words(); }
  Status submit(const Addresses& at, const tessera_device& device) const override {
    Status status = honest_->submit(at, device);
    if (!status.ok()) return status;
    const std::int64_t last =
        problem_.output.rows.offset(problem_.batch - 1, problem_.heads - 1, problem_.queries - 1) +
        problem_.value_dim - 1;
    void* const output = at[TensorId::output];
    const double right = oracle::load(output, problem_.dtype, last);
    oracle::store(output, problem_.dtype, last, right + error_);
    return status;
  }

 private:
  std::shared_ptr<const Prepared> honest_;
  Problem problem_;
  double error_;
};

Kernel faulty(const Kernel& honest, std::string_view name, std::string_view summary, double error) {
  Kernel kernel = honest;
  kernel.name = name;
  kernel.summary = summary;
  kernel.estimate = nullptr;  // by name alone
  kernel.prepare = [=](const Problem& p, const Device& d, std::shared_ptr<const Prepared>* out) {
    Status status = honest.prepare(p, d, out);
    if (status.ok()) *out = std::make_shared<Faulty>(*out, p, error);
    return status;
  };
  return kernel;
}

std::vector<Kernel> rows() {
  std::vector<Kernel> all = cpu::backend().kernels();
  const Kernel scalar = all.back();
  all.push_back(faulty(scalar, "cpu_faulty", "wrong in one element", 0.5));
  all.push_back(faulty(scalar, "cpu_loose", "off by 0.005 in one element, and allowed 0.01", 0.005));
  all.back().tolerance = 0.01;
  return all;
}

}  // namespace

const std::vector<const Backend*>& backends() {
  static const testing_rows::OtherRows cpu(cpu::backend(), rows());
  static const std::vector<const Backend*> all = {&cpu, &cuda::backend()};
  return all;
}

}  // namespace tessera::core
