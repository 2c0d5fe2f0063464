#include "cuda/sm90/widened_instance.hpp"

namespace tessera::cuda::sm90 {
template const void* widened_function<Element::f16, 64>();
template const void* widened_function<Element::bf16, 64>();
template const void* widened_function<Element::f16, 128>();
template const void* widened_function<Element::bf16, 128>();
template const void* widened_function<Element::f16, 256>();
template const void* widened_function<Element::bf16, 256>();
}  // namespace tessera::cuda::sm90
