#include "backend/cuda/kernels/matmul/run/matmul_args.h"

#include <cstring>

#include "backend/cuda/kernels/matmul/run/tuning.h"
#include "base/error.h"

namespace ingot::kernels {

constexpr size_t length = sizeof(uint64_t) + sizeof(double);  // version, fields of a byte, zeros; alpha

std::vector<std::byte> serialise(const MatmulCudaArgs& args) {
  std::vector<std::byte> out(length);
  const uint8_t head[] = {2, args.batch_rank, args.activation, args.bias, args.residual, args.tf32, args.parts_of_b};
  std::memcpy(out.data(), head, sizeof head);
  std::memcpy(out.data() + 8, &args.alpha, 8);
  return out;
}

MatmulCudaArgs parse_matmul_cuda(std::span<const std::byte> bytes) {
  auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  bool good = bytes.size() == length && at(0) == 2 && at(1) <= matmul_cuda_tuning::max_batch_axes && at(2) <= MatmulCudaArgs::gelu_tanh && at(3) <= 2 && at(4) <= 2 && at(5) <= 1;
  // Bias and residual are different operands, and operand 2 needs operand 1.
  good = good && (at(3) == 0 || at(3) != at(4)) && (at(3) == 2 ? at(4) == 1 : true) && (at(4) == 2 ? at(3) == 1 : true);
  good = good && at(6) >= 1 && (at(6) == 1 || at(1) == 0);
  if (!good) fail(Code::format, "the arguments of a matmul step for CUDA are damaged");
  MatmulCudaArgs args{at(1), static_cast<MatmulCudaArgs::Activation>(at(2)), at(3), at(4), 1, at(5) != 0, at(6)};
  std::memcpy(&args.alpha, bytes.data() + 8, 8);
  return args;
}

}  // namespace ingot::kernels
