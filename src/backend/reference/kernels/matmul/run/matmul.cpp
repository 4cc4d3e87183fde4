// The "matmul" step. Operands: A, B [batch.., K, N], then the body's over [batch.., M, N]. A is [batch.., M, K], or any tensor read through a map from the
// indices batch.., m.., k... Sizes: with a map the indices' extents and the offsets along A's axes; then the body's.
#include "backend/reference/kernels/matmul/run/matmul_args.h"
#include "backend/reference/run/sums.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

using namespace backend::reference;

struct Constants {
  MatmulConstants args;
  Body body;
  MapSteps map() const { return {args.rank, size_t{args.batch} + args.m + args.k, args.steps}; }
};

std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes) {
  auto c = std::make_shared<Constants>();
  FieldReader from{bytes, "the constants of a matmul step"};
  matmul_fields(from, c->args);
  const MatmulConstants& a = c->args;
  const bool good = a.batch <= max_rank && a.m >= 1 && a.m <= max_rank && a.k >= 1 && a.k <= max_rank && (a.rank > 0 || (a.m == 1 && a.k == 1));
  c->body = read_sums(from, "matmul", good, c->map(), a.batch + size_t{2}, operands, sizes);
  return c;
}

Resolved resolve(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const TensorRef &a = call.operands[0], &b = call.operands[1];
  auto s = std::make_shared<Sums>();
  s->body = bind(c.body, call.operands.subspan(2), call.sizes.subspan(c.map().sizes()));
  const size_t batch = c.args.batch, m = c.args.m, k = c.args.k;
  auto refuse = [](const char* what) { fail(Code::format, "matmul: {}", what); };
  if (b.rank != static_cast<int>(batch + 2)) refuse("B does not have its rank");
  if (c.args.rank == 0 ? a.rank != static_cast<int>(batch + 2) : a.rank != static_cast<int>(c.args.rank)) refuse("A does not have its rank");
  s->map = c.args.rank == 0 ? straight(a) : resolve_index_map("matmul", c.args.steps, a, call.sizes.first(c.map().sizes()));
  const std::vector<IndexMap::Index>& indices = s->map.indices;
  for (size_t i = 0; i < batch; ++i) {
    if (indices[i].extent != b.dims[i]) refuse("A and B have different batches");
    s->kept.push_back({{indices[i], b.strides[i]}});
  }
  std::vector<SumIndex>& rows = s->kept.emplace_back();
  for (size_t i = 0; i < m; ++i) rows.push_back({indices[batch + i], 0});
  IndexMap::Index column;
  column.extent = b.dims[batch + 1];
  s->kept.push_back({{column, b.strides[batch + 1]}});
  int64_t step = b.strides[batch], length = 1;
  for (size_t i = k; i-- > 0;) {
    const IndexMap::Index& index = indices[batch + m + i];
    s->summed.insert(s->summed.begin(), {index, step});
    if (__builtin_mul_overflow(length, index.extent, &length) || __builtin_mul_overflow(step, index.extent, &step)) refuse("K is impossible");
  }
  if (length != b.dims[batch]) refuse("A and B have different K");
  return resolve_sums(std::move(s), call);
}

}  // namespace

std::span<const RunKernel> matmul_reference_kernels() {
  static constexpr RunKernel list[] = {{"matmul", load, resolve, run_sums}};
  return list;
}

}  // namespace ingot::kernels
