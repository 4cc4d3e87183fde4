// Numbers that plans store. A file that was written once must mean the same later: what is listed here keeps its number, new ones come behind.
// A changed number of a kernel's constants needs a new program_revision, any other one a new version of the format (plan/file.h).
#include <gtest/gtest.h>

#include <sstream>

#include "backend/body.h"
#include "backend/cuda/kernels/fused/run/fused_args.h"
#include "backend/cuda/kernels/matmul/run/matmul_args.h"
#include "base/sizes.h"
#include "ir/dtype.h"
#include "ir/op.h"
#include "kernels/scan/run/scan_args.h"
#include "kernels/scatter/run/scatter_args.h"
#include "plan/plan.h"

namespace ingot {
namespace {

std::vector<std::string> words(const char* list) {
  std::istringstream in(list);
  return {std::istream_iterator<std::string>(in), {}};
}

TEST(stored, primitives) {
  const auto names = words(
      "add sub mul div truncdiv floordiv mod fmod pow min max fmin fmax atan2 copysign hypot nextafter gcd neg abs sign relu "
      "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc "
      "erfinv lgamma digamma sigmoid gelu gelu_tanh silu softplus floor ceil trunc round is_nan is_inf signbit eq ne lt le gt "
      "ge logical_not bit_and bit_or bit_xor bit_not shift_left shift_right select cast input weight literal size index view "
      "reshape reduce scan concat gather take_along scatter scatter_along sort update matmul attention topk call "
      "branch loop moments external lu solve inverse determinant cholesky solve_triangular qr fourier fourier_of_real fourier_to_real "
      "bitcast gammainc gammaincc grid_sample ragged_matmul reduce_segments order_segments");
  ASSERT_EQ(names.size(), ir::op_count) << "add the new primitive's name at the end of this list";
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(ir::name_of(static_cast<ir::Op>(i)), names[i]) << "number " << i;
}

TEST(stored, dtypes) {
  const auto names = words("b8 u8 i8 i16 i32 i64 f16 bf16 f32 f64 c64 c128");
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(ir::name_of(static_cast<ir::DType>(i)), names[i]) << "number " << i;
}

// The enumerators, in order, are 0, 1, 2 ..
template <class E>
void numbered(std::initializer_list<E> all) {
  size_t i = 0;
  for (E e : all) EXPECT_EQ(static_cast<size_t>(e), i++);
}

TEST(stored, enumerators) {
  using Size = SizeInstruction::Op;
  numbered({Size::constant, Size::symbol, Size::add, Size::sub, Size::mul, Size::floordiv, Size::mod, Size::min, Size::max});
  using Reduction = backend::Reduction;
  numbered({Reduction::sum, Reduction::prod, Reduction::max, Reduction::min, Reduction::any, Reduction::all, Reduction::argmax, Reduction::argmin});
  using Kind = backend::Instruction::Kind;
  numbered({Kind::map, Kind::load, Kind::accumulator, Kind::literal, Kind::size, Kind::index, Kind::reduce});
  using Scan = kernels::ScanArgs::Kind;
  numbered({Scan::sum, Scan::prod, Scan::max, Scan::min, Scan::logsumexp});
  using Scatter = kernels::ScatterArgs::Kind;
  numbered({Scatter::set, Scatter::add, Scatter::mul, Scatter::min, Scatter::max});
  using Gemm = kernels::MatmulCudaArgs;
  numbered({Gemm::none, Gemm::relu, Gemm::gelu_tanh});
  using Buffer = plan::Buffer::Kind;
  numbered({Buffer::arena, Buffer::binding, Buffer::weight, Buffer::derived});
  using Binding = plan::Binding::Kind;
  numbered({Binding::input, Binding::output, Binding::state});
  using Source = plan::Weight::Source;
  numbered({Source::embedded, Source::external, Source::host});
  using Region = plan::Region::Kind;
  numbered({Region::straight, Region::branch, Region::loop});
  using Form = plan::DeviceCode::Form;
  numbered({Form::machine, Form::portable});
}

}  // namespace
}  // namespace ingot
