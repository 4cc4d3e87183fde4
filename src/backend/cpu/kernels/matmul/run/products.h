// Products with B in panels: what the kernels matmul, matmul_dots and matmul_matrix share. Each is an algorithm: the tiles that multiply, and what they take.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "backend/cpu/kernels/matmul/run/cost.h"
#include "backend/cpu/kernels/matmul/run/problem.h"
#include "backend/cpu/kernels/matmul/run/tile.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels::matmul {

struct Algorithm {
  std::string_view kernel;  // RunKernel::name
  std::optional<Way> (*way)(const Operands&);  // nullopt: its tiles do not multiply such numbers, or not on this machine
  double (*cost)(const ProductSizes&, const conv::Cpu&);
};

// RunKernel::resolve, tunables and run of an algorithm.
Resolved resolve(const Call&, const Algorithm&);
std::vector<Tunable> tunables(const Call&, const Algorithm&);
void run(const Call&);

template <const Algorithm& algorithm>
constexpr RunKernel kernel_of() {
  return {algorithm.kernel, load, [](const Call& call) { return resolve(call, algorithm); }, run, [](const Call& call) { return tunables(call, algorithm); }};
}

}  // namespace ingot::kernels::matmul
