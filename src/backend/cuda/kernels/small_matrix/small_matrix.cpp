#include "backend/cuda/kernels/small_matrix/small_matrix.h"

#include "backend/cuda/kernels/small_matrix/run/small_matrix_cuda_args.h"
#include "backend/cuda/kernels/small_matrix/small_matrix.cuh.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

constexpr std::string_view parameters_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_SMALL_MATRIX);

// The function of the text that does it, with its template's arguments after the group, the type, rows and columns.
std::string function_of(const SmallMatrixArgs& a, std::string_view numbers) {
  using Kind = SmallMatrixArgs::Kind;
  switch (a.kind) {
    case Kind::lu: return fmt::format("matrix_lu<{}>", numbers);
    case Kind::solve: return fmt::format("matrix_solve<{}>", numbers);
    case Kind::inverse: return fmt::format("matrix_inverse<{}>", numbers);
    case Kind::determinant: return fmt::format("matrix_determinant<{}>", numbers);
    case Kind::cholesky: return fmt::format("matrix_cholesky<{}>", numbers);
    case Kind::solve_triangular: return fmt::format("matrix_solve_triangular<{}, {}, {}>", numbers, a.upper, a.unit);
    default: return fmt::format("matrix_qr<{}, {}>", numbers, a.wide());
  }
}

}  // namespace

std::string_view small_matrix_cuda_text() {
  static const std::string all =
      std::string(parameters_text) + fmt::format("\nconstexpr int matrix_threads = {};\n", small_matrix_cuda_tuning::threads) + std::string(small_matrix_cuh);
  return all;
}

CudaPart small_matrix_cuda_part(const SmallMatrixArgs& args, ir::DType type) {
  CudaPart out;
  out.name = small_matrix_cuda_name(args, type);
  out.kernels = {out.name};
  const std::string call = function_of(args, fmt::format("{}, {}, {}, {}", matrix_group(args), cuda_type(type), args.rows, args.columns));
  out.text = fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ SmallMatrixCudaParameters p) {{\n  after_others();\n  {}(p);\n}}\n",
                         small_matrix_cuda_tuning::threads, out.name, call);
  return out;
}

}  // namespace ingot::kernels
