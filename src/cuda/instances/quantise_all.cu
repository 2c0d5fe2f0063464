#include "cuda/quantise/largest.hpp"
#include "cuda/quantise/means.hpp"
#include "cuda/quantise/write.hpp"

namespace tessera::cuda::quantise {
namespace {

// f(T{}) for the input's type.
template <class F>
const void* of_element(Element input, F f) {
  if (input == Element::f32) return f(float{});
  return input == Element::bf16 ? f(__nv_bfloat16{}) : f(__half{});
}

}  // namespace

const void* add_up_function(Element input) {
  return of_element(input, []<class T>(T) { return reinterpret_cast<const void*>(add_up<T>); });
}
const void* finish_means_function() { return reinterpret_cast<const void*>(finish_means); }
const void* find_largest_function(Element input, bool whole_rows) {
  return of_element(input, [&]<class T>(T) {
    return whole_rows ? reinterpret_cast<const void*>(find_largest<T, true>)
                      : reinterpret_cast<const void*>(find_largest<T, false>);
  });
}
const void* finish_scales_function() { return reinterpret_cast<const void*>(finish_scales); }
const void* write_codes_function(Element input, Codes codes, bool whole_rows) {
  return of_element(input, [&]<class T>(T) {
    const auto pick = [&]<class Format>(Format) {
      return whole_rows ? reinterpret_cast<const void*>(write_codes<T, Format, true>)
                        : reinterpret_cast<const void*>(write_codes<T, Format, false>);
    };
    if (codes == Codes::i8) return pick(codes::I8{});
    return codes == Codes::e4m3 ? pick(codes::E4M3{}) : pick(codes::E5M2{});
  });
}

}  // namespace tessera::cuda::quantise
