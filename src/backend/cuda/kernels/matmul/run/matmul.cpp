// "matmul" on CUDA: strided operands as cuBLASLt's matrices. Batch axes become its one batch or, if they cannot be merged, several calls.
#include <algorithm>
#include <array>
#include <deque>

#include "backend/cuda/kernels/matmul/run/matmul_args.h"
#include "backend/cuda/run/gpu.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

using namespace backend::cuda;

enum Which { A, B, C, D };
using Offsets = std::array<int64_t, 4>;  // in elements, per operand

// The columns of D from one part of B.
struct Part {
  Problem problem;                        // of pointers aligned to 16 bytes
  std::unique_ptr<Product> aligned, any;  // for pointers aligned to 16 bytes; for pointers aligned to an element
  std::vector<Offsets> calls;             // in bytes
  int64_t bias = 0;                       // offset in bytes
};

struct Prepared {
  std::vector<Part> parts;
  size_t zeros = 0;  // bytes of zeros before the workspace that replace A and B if K is 0
};

// The library cannot sum over nothing: if K is 0, A and B become a column and a row of zeros.
class Columns {
 public:
  Columns(TensorRef& a, TensorRef& b) {
    if (a.dims[a.rank - 1] != 0) return;
    for (TensorRef* t : {&a, &b}) {
      std::vector<int64_t>& dims = dims_.emplace_back(t->dims, t->dims + t->rank);
      std::vector<int64_t>& strides = strides_.emplace_back(t->rank, 0);
      size_t k = dims.size() - (t == &a ? 1 : 2), other = dims.size() - (t == &a ? 2 : 1);
      dims[k] = 1;
      strides[other] = 1;
      strides[k] = dims[other];
      zeros = std::max(zeros, (static_cast<size_t>(dims[other]) * ir::size_of(t->dtype) + 255) / 256 * 256);
      t->dims = dims.data();
      t->strides = strides.data();
    }
  }
  size_t zeros = 0;

 private:
  std::deque<std::vector<int64_t>> dims_, strides_;
};

// The operand's matrix: rows and columns are its last two axes, in this order or `transposed`.
Problem::Matrix matrix(const TensorRef& t, bool transposed) {
  int row = t.rank - 2 + transposed, column = t.rank - 1 - transposed;
  int64_t rows = t.dims[row], columns = t.dims[column], down = t.strides[row], along = t.strides[column];
  Problem::Matrix m;
  m.rows = rows;
  m.columns = columns;
  auto is_column_major = [](int64_t inner, int64_t n, int64_t outer, int64_t others) { return (inner == 1 || n <= 1) && (outer >= n || others <= 1); };
  if (is_column_major(down, rows, along, columns)) {
    m.leading = std::max<int64_t>(columns > 1 ? along : rows, 1);
  } else if (is_column_major(along, columns, down, rows)) {
    m.transposed = 1;
    m.leading = std::max<int64_t>(rows > 1 ? down : columns, 1);
  } else {
    fail(Code::unsupported, "a matrix with strides {} and {}, neither of which cuBLASLt can use", down, along);
  }
  return m;
}

struct Axis {
  int64_t size;
  Offsets strides;
};

// Batch axes, merged where all operands allow it.
std::vector<Axis> batch_axes(const std::array<const TensorRef*, 4>& t, int rank) {
  std::vector<Axis> out;
  for (int d = 0; d < rank; ++d) {
    Axis axis{t[D]->dims[d], {}};
    if (axis.size == 1) continue;
    for (size_t k = 0; k < t.size(); ++k) axis.strides[k] = t[k] != nullptr && t[k]->dims[d] != 1 ? t[k]->strides[d] : 0;
    bool joins = !out.empty();
    for (size_t k = 0; joins && k < t.size(); ++k) joins = out.back().strides[k] == axis.strides[k] * axis.size;
    if (joins) {
      out.back() = {out.back().size * axis.size, axis.strides};
    } else {
      out.push_back(axis);
    }
  }
  return out;
}

// The offsets of all combinations of the axes.
std::vector<Offsets> combinations(const std::vector<Axis>& axes) {
  std::vector<Offsets> out{Offsets{}};
  for (const Axis& axis : axes) {
    std::vector<Offsets> next;
    for (const Offsets& o : out) {
      for (int64_t i = 0; i < axis.size; ++i) {
        Offsets moved = o;
        for (size_t k = 0; k < moved.size(); ++k) moved[k] += i * axis.strides[k];
        next.push_back(moved);
      }
    }
    out = std::move(next);
  }
  return out;
}

std::shared_ptr<const void> load(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<MatmulCudaArgs>(parse_matmul_cuda(constants));
  size_t wanted = size_t{2} + args->parts_of_b + (args->bias != 0) + (args->residual != 0);
  if (operands != wanted || sizes != 3) fail(Code::format, "a matmul step has {} operands and {} sizes, its arguments {} and 3", operands, sizes, wanted);
  need_cublaslt();  // fails when the plan is loaded, not in the first run
  return args;
}

// D = A B + residual in TF32 or better, without constants: the runtime adds products to weights (runtime/product_sums.h).
std::shared_ptr<const void> load_sum(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  if (!constants.empty()) fail(Code::format, "a sum of a product and a matrix has {} bytes of arguments, and takes none", constants.size());
  MatmulCudaArgs args;
  args.residual = 1;
  args.tf32 = true;
  return load(serialise(args), operands, sizes);
}

void check(const MatmulCudaArgs& args, const Call& call) {
  int64_t m = call.sizes[0], n = call.sizes[1], k = call.sizes[2];
  const TensorRef& d = call.operands.back();
  auto require = [](bool good, const char* what) {
    if (!good) fail(Code::format, "the operands of a matmul step do not fit: {}", what);
  };
  require(d.rank == args.batch_rank + 2 && d.dims[d.rank - 2] == m && d.dims[d.rank - 1] == n, "the result");
  for (size_t i = 0; i + 1 < call.operands.size(); ++i) {
    const TensorRef& t = call.operands[i];
    require(t.rank == d.rank, "ranks");
    bool product = i <= args.parts_of_b;
    for (int axis = 0; axis < args.batch_rank; ++axis) require(t.dims[axis] == d.dims[axis] || (!product && t.dims[axis] == 1), "batch axes");
    if (!product) require(t.dtype == d.dtype, "types");
  }
  const TensorRef &a = call.operands[0], &b = call.operands[1];
  int64_t columns = 0;
  for (size_t i = 1; i <= args.parts_of_b; ++i) {
    const TensorRef& t = call.operands[i];
    require(t.dims[t.rank - 2] == k && t.dtype == b.dtype, "the right operand");
    columns += t.dims[t.rank - 1];
  }
  require(a.dims[a.rank - 2] == m && a.dims[a.rank - 1] == k && columns == n, "M, N and K");
  bool half = a.dtype == ir::DType::f16 || a.dtype == ir::DType::bf16;
  require(a.dtype == b.dtype && ir::is_float(a.dtype) && (d.dtype == a.dtype || (half && d.dtype == ir::DType::f32)), "types");
  if (args.residual != 0) {
    const TensorRef& c = call.operands[args.operand(args.residual)];
    require(c.dims[c.rank - 2] == m && c.dims[c.rank - 1] == n, "the residual");
  }
  if (args.bias != 0) {
    const TensorRef& c = call.operands[args.operand(args.bias)];
    bool row = c.dims[c.rank - 1] == n && (n == 1 || c.strides[c.rank - 1] == 1);
    for (int axis = 0; axis + 1 < c.rank; ++axis) row = row && (c.dims[axis] == 1 || c.strides[axis] == 0);
    require(row, "the bias");
  }
}

// The tensor's first columns.
struct Slice {
  Slice(const TensorRef& t, int64_t columns) : dims(t.dims, t.dims + t.rank), ref(t) {
    dims.back() = columns;
    ref.dims = dims.data();
  }
  Slice(const Slice&) = delete;

  std::vector<int64_t> dims;
  TensorRef ref;
};

// The GEMM with one part of B, which computes the columns of D from column `from` on.
Part part_of(const MatmulCudaArgs& args, const Products& products, const TensorRef& a, const TensorRef& b, const TensorRef* residual, const TensorRef& d, int64_t from,
             const Timing* trial, int64_t workspace) {
  Part out;
  std::array<const TensorRef*, 4> t = {&a, &b, residual, &d};
  // cuBLASLt is column-major: a row-major D is the transposed result of B^T A^T.
  bool transposed = d.strides[d.rank - 1] == 1 || d.dims[d.rank - 1] <= 1;
  if (!transposed && args.bias != 0) fail(Code::unsupported, "a product with a bias along the columns of its result");
  Problem p;
  p.a = matrix(transposed ? b : a, transposed);
  p.b = matrix(transposed ? a : b, transposed);
  p.d = matrix(d, transposed);
  if (t[C] != nullptr) p.c = matrix(*t[C], transposed);
  if (p.d.transposed || (t[C] != nullptr && p.c.transposed)) fail(Code::unsupported, "a product whose result and residual have different memory orders");
  std::vector<Axis> axes = batch_axes(t, args.batch_rank);
  if (!axes.empty()) {
    auto widest = std::max_element(axes.begin(), axes.end(), [](const Axis& x, const Axis& y) { return x.size < y.size; });
    p.batches = widest->size;
    p.a.batch = widest->strides[transposed ? B : A];
    p.b.batch = widest->strides[transposed ? A : B];
    p.c.batch = widest->strides[C];
    p.d.batch = widest->strides[D];
    axes.erase(widest);
  }
  if (p.batches > INT32_MAX) fail(Code::unsupported, "a product of {} matrices", p.batches);
  p.in = static_cast<int32_t>(a.dtype);
  p.out = static_cast<int32_t>(d.dtype);
  p.activation = args.activation == MatmulCudaArgs::relu ? Problem::relu : args.activation == MatmulCudaArgs::gelu_tanh ? Problem::gelu_tanh : Problem::none;
  p.bias = args.bias != 0;
  p.residual = args.residual != 0;
  p.tf32 = args.tf32;
  p.workspace = workspace;
  out.problem = p;
  out.aligned = std::make_unique<Product>(products, p, trial);
  p.alignment = static_cast<int64_t>(std::min(ir::size_of(a.dtype), ir::size_of(d.dtype)));
  out.any = std::make_unique<Product>(products, p);
  out.calls = combinations(axes);
  for (Offsets& o : out.calls) {
    for (size_t k : {C, D}) o[k] += t[k] != nullptr ? from * t[k]->strides[t[k]->rank - 1] : 0;
    for (size_t k = 0; k < o.size(); ++k) o[k] *= t[k] != nullptr ? static_cast<int64_t>(ir::size_of(t[k]->dtype)) : 0;
  }
  out.bias = from * static_cast<int64_t>(ir::size_of(d.dtype));
  return out;
}

const Products& products_of(const Call& call) { return static_cast<const Gpu&>(*call.backend).products(); }

Resolved resolve_within(int64_t max_workspace, const Call& call) {
  const auto& args = *static_cast<const MatmulCudaArgs*>(call.constants);
  check(args, call);
  auto out = std::make_shared<Prepared>();
  const TensorRef& d = call.operands.back();
  int64_t elements = 1, from = 0;
  for (int axis = 0; axis < d.rank; ++axis) elements *= d.dims[axis];
  if (elements == 0) return {0, out};
  size_t workspace = 0;
  for (size_t i = 1; i <= args.parts_of_b; ++i) {
    TensorRef a = call.operands[0], b = call.operands[i];
    const int64_t n = b.dims[b.rank - 1];
    Columns columns(a, b);
    out->zeros = std::max(out->zeros, columns.zeros);
    if (n == 0) fail(Code::format, "the operands of a matmul step do not fit: a right operand is empty");
    const Slice to(d, n), residual(args.residual != 0 ? call.operands[args.operand(args.residual)] : d, n);
    const Part& part = out->parts.emplace_back(part_of(args, products_of(call), a, b, args.residual != 0 ? &residual.ref : nullptr, to.ref, from, call.trial, max_workspace));
    workspace = std::max({workspace, part.aligned->workspace(), part.any->workspace()});
    from += n;
  }
  return {out->zeros + workspace, out};
}

Resolved resolve(const Call& call) { return resolve_within(gpu_tuning::workspace_bytes, call); }
// Without workspace, so that nobody has to wait until the memory is free.
Resolved resolve_sum(const Call& call) { return resolve_within(0, call); }

std::vector<Tunable> tunables(const Call& call) {
  std::vector<Tunable> out;
  const Resolved resolved = resolve(call);
  for (const Part& part : static_cast<const Prepared*>(resolved.state.get())->parts) out.push_back(products_of(call).tunable(part.problem, *part.aligned));
  return out;
}

void run(const Call& call) {
  const auto& args = *static_cast<const MatmulCudaArgs*>(call.constants);
  auto& prepared = *static_cast<Prepared*>(const_cast<void*>(call.prepared));  // of this session only
  if (prepared.parts.empty()) return;
  auto& stream = static_cast<GpuStream&>(*call.stream);
  const TensorRef& d = call.operands.back();
  bool transposed = d.strides[d.rank - 1] == 1 || d.dims[d.rank - 1] <= 1;
  auto address = [&](const TensorRef& t, int64_t offset) { return reinterpret_cast<Address>(t.data + offset); };
  constexpr Address together = 16;
  auto scratch = reinterpret_cast<Address>(call.scratch);
  if (prepared.zeros > 0) {
    Device::Use use(*static_cast<const Gpu&>(*call.backend).device());
    driver().check(driver().fill(scratch, 0, prepared.zeros, stream.handle()), "filling {} bytes with zeros", prepared.zeros);
  }
  for (size_t i = 0; i < prepared.parts.size(); ++i) {
    const Part& part = prepared.parts[i];
    Address bias = args.bias != 0 ? address(call.operands[args.operand(args.bias)], part.bias) : 0;
    for (const Offsets& o : part.calls) {
      Address a = prepared.zeros > 0 ? scratch : address(call.operands[0], o[A]), b = prepared.zeros > 0 ? scratch : address(call.operands[1 + i], o[B]), to = address(d, o[D]);
      Address c = args.residual != 0 ? address(call.operands[args.operand(args.residual)], o[C]) : to;
      Product& product = (a | b | c | to | bias) % together == 0 ? *part.aligned : *part.any;
      product.run(args.alpha, args.residual != 0 ? 1 : 0, transposed ? b : a, transposed ? a : b, c, to, bias, scratch + prepared.zeros, stream.handle());
    }
  }
}

}  // namespace

std::span<const RunKernel> matmul_cuda_kernels() {
  static constexpr RunKernel list[] = {{"matmul", load, resolve, run, tunables}, {"product_sum", load_sum, resolve_sum, run}};
  return list;
}

}  // namespace ingot::kernels
