#include "cuda/sm90/entries_instance.hpp"

namespace tessera::cuda::sm90 {
template const void* entries_function<Element::f16, 64, 64>();
template const void* entries_function<Element::bf16, 64, 64>();
template const void* entries_function<Element::f16, 80, 80>();
template const void* entries_function<Element::bf16, 80, 80>();
template const void* entries_function<Element::f16, 96, 96>();
template const void* entries_function<Element::bf16, 96, 96>();
template const void* entries_function<Element::f16, 128, 128>();
template const void* entries_function<Element::bf16, 128, 128>();
template const void* entries_function<Element::f16, 192, 128>();
template const void* entries_function<Element::bf16, 192, 128>();
template const void* entries_function<Element::f16, 192, 192>();
template const void* entries_function<Element::bf16, 192, 192>();
template const void* entries_function<Element::f16, 256, 256>();
template const void* entries_function<Element::bf16, 256, 256>();
}  // namespace tessera::cuda::sm90
