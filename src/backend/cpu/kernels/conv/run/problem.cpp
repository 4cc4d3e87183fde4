#include "backend/cpu/kernels/conv/run/problem.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace ingot::kernels::conv {

using ir::DType;

std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes) {
  MatmulArgs args = parse_matmul(bytes);
  if (!args.map) fail(Code::format, "a convolution has no map");
  auto c = std::make_shared<Constants>(Constants{args.packed, args.batch_rank, std::move(*args.map), nullptr, false});
  if (operands <= product_roles.size() || sizes < 3 + c->map_sizes()) fail(Code::format, "a convolution has {} operands and {} sizes", operands, sizes);
  c->body = load_program(args.body, operands - product_roles.size(), sizes - 3 - c->map_sizes());
  const Program& p = *c->body;
  const auto rank = static_cast<size_t>(p.domain_rank);
  c->grouped = rank == c->batch_rank + 1;
  const bool fits =
      (c->grouped || rank == c->batch_rank + 2) && p.row_rank == 1 && !p.has_reductions && (!p.has_accumulator || p.accumulator == Class::f32 || p.accumulator == Class::f64);
  if (!fits || (c->grouped && (c->packed || c->batch_rank == 0))) fail(Code::format, "a convolution's body has another domain");
  return c;
}

void refuse(const char* what) { fail(Code::format, "a convolution: {}", what); }

namespace {

void find_groups(Problem& p, const Constants& c, const TensorRef& b, DType type) {
  if (c.packed) {
    if (b.dtype != type || b.rank != 1 || b.strides[0] != 1 || b.dims[0] < storage_bytes(panels_of(type), std::array{p.k, p.n}) / static_cast<int64_t>(ir::size_of(type)))
      refuse("the packed operand does not fit");
    return;
  }
  if (b.dtype != type || static_cast<size_t>(b.rank) != c.batch_rank + 2 || b.dims[c.batch_rank] != p.k || b.dims[c.batch_rank + 1] != p.n)
    refuse("B does not have the sizes K and N");
  for (size_t d = 0; d < c.batch_rank; ++d) {
    if (b.dims[d] != p.map.indices[d].extent) refuse("A and B have different batch sizes");
    if (b.strides[d] == 0 || b.dims[d] == 1) continue;
    if (!c.grouped || p.group_axis != SIZE_MAX) refuse("B differs along several axes");
    p.group_axis = d;
    p.groups = b.dims[d];
  }
  if (c.grouped && p.group_axis == SIZE_MAX) refuse("there are no groups");
}

void check_extents(const Problem& p, const Constants& c) {
  const std::vector<IndexMap::Index>& all = p.map.indices;
  const size_t first_m = c.batch_rank, first_k = first_m + c.map.m_rank;
  int64_t lengths[2] = {1, 1};
  for (size_t i = first_m; i < all.size(); ++i) {
    int64_t& length = lengths[i >= first_k];
    if (all[i].extent > 0 && length > max_map_extent / all[i].extent) refuse("the map's extents are impossible");
    length *= all[i].extent;
  }
  if (lengths[0] != p.m || lengths[1] != p.k) refuse("the map's extents are not those of the product");
}

// An operand of the body over the domain without the groups' axis.
struct Joined {
  int64_t dims[max_rank], strides[max_rank];
};

void join_groups(const Problem& p, const Constants& c, std::span<const TensorRef> operands, std::vector<Joined>& joined, std::vector<TensorRef>& to) {
  for (const TensorRef& t : operands) {
    if (static_cast<size_t>(t.rank) != c.batch_rank + 2) refuse("an operand of the body has another rank");
    Joined j{};
    int rank = 0;
    for (int d = 0; d < t.rank; ++d) {
      if (static_cast<size_t>(d) == p.group_axis) continue;
      j.dims[rank] = t.dims[d];
      j.strides[rank++] = t.strides[d];
    }
    const int64_t of_groups = t.dims[p.group_axis], last = t.dims[t.rank - 1];
    const bool repeats = of_groups == 1 && last == 1;
    const bool adjacent = of_groups == p.groups && last == p.n && (p.n == 1 || t.strides[p.group_axis] == t.strides[t.rank - 1] * p.n);
    if (!repeats && !adjacent) refuse("columns of groups are not neighbours");
    if (adjacent && p.n == 1) j.strides[rank - 1] = t.strides[p.group_axis];
    j.dims[rank - 1] = repeats ? 1 : p.groups * p.n;
    joined.push_back(j);
  }
  for (size_t i = 0; i < operands.size(); ++i) to.push_back({operands[i].data, operands[i].dtype, operands[i].rank - 1, joined[i].dims, joined[i].strides});
}

}  // namespace

Lines lines_of(const IndexMap& map, size_t batch_rank, size_t m_rank, size_t group_axis) {
  Lines out;
  for (size_t i = 0; i < batch_rank; ++i) {
    if (i != group_axis) out.before.push_back(map.indices[i]);
  }
  const auto m = map.indices.begin() + static_cast<int64_t>(batch_rank);
  const std::vector<IndexMap::Index> merged = collapsed({m, m + static_cast<int64_t>(m_rank)}, map.axes);
  out.line = merged.back();
  out.before.insert(out.before.end(), merged.begin(), merged.end() - 1);
  return out;
}

Problem checked(const Call& call, DType type) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  Problem p{};
  p.m = call.sizes[0];
  p.n = call.sizes[1];
  p.k = call.sizes[2];
  if (p.m < 0 || p.n < 0 || p.k < 0) refuse("a negative size");
  const TensorRef& a = call.operands[0];
  const bool sums = !c.body->has_accumulator || c.body->accumulator == (type == DType::f64 ? Class::f64 : Class::f32);
  if (a.dtype != type || !sums) refuse("A is of another type");
  if (call.sizes.size() < 3 + c.map_sizes() || a.rank != c.map.rank) refuse("the operand read through a map does not have the map's rank");
  p.map = resolve_index_map("a convolution", c.map.steps, a, call.sizes.subspan(3, c.map_sizes()));
  find_groups(p, c, call.operands[1], type);
  check_extents(p, c);
  std::vector<int64_t> domain;
  for (size_t d = 0; d < c.batch_rank; ++d) {
    if (d != p.group_axis) domain.push_back(p.map.indices[d].extent);
  }
  domain.push_back(p.m);
  domain.push_back(p.groups * p.n);
  std::vector<Joined> axes;
  std::vector<TensorRef> joined;
  if (c.grouped) join_groups(p, c, body_operands(call.operands), axes, joined);
  p.bound = bind_program(c.body, c.grouped ? std::span<const TensorRef>(joined) : body_operands(call.operands), call.sizes.subspan(3 + c.map_sizes()), domain, false);
  return p;
}

}  // namespace ingot::kernels::conv
