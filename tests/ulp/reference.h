// The functions of one argument that prim.def names (and reciprocal), in double or better: what float32 results are compared with.
#pragma once
#include <cstdint>
#include <string_view>

namespace ingot::ulp {

// y[i] = f(x[i]), at least 20 bits more exact than float32; nullptr for an unknown name.
using Reference = void (*)(const float* x, double* y, int64_t n);
Reference reference_of(std::string_view name);

}  // namespace ingot::ulp
