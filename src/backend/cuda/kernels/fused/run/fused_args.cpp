#include "backend/cuda/kernels/fused/run/fused_args.h"

#include "backend/cuda/run/hardware.h"
#include "base/fields.h"
#include "kernels/fused/run/fused_args.h"

namespace ingot::kernels {

namespace {

constexpr uint32_t magic = 0x32444346;  // "FCD2"

// One order of fields for reading and writing.
template <class S, class A>
void fields(S& s, A& a) {
  s.text(a.name);
  s.all(a.rank, a.row_rank, a.stores, a.outer, a.sizes);
  auto number = [&](auto& n) { s.all(n.kind, n.a, n.b); };
  s.list(a.operands, [&](auto& o) { s.all(o.dtype, o.gathered, o.guarded, o.vector); });
  s.list(a.groups, [&](auto& g) { s.all(g.first, g.last); });
  s.list(a.numbers, number);
  s.list(a.known, [&](auto& k) {
    number(k.number);
    s.field(k.value);
  });
  s.list(a.variants, [&](auto& v) { s.all(v.mapping, v.vector, v.units, v.reread, v.wide, v.fitted, v.kept, v.threads, v.lanes, v.across); });
}

void check_number(const FusedCudaArgs& a, const FusedCudaArgs::Number& n) {
  using Number = FusedCudaArgs::Number;
  bool good = false;
  switch (n.kind) {
    case Number::size: good = n.a < a.sizes; break;
    case Number::extent:
    case Number::magic: good = n.a < a.groups.size() && n.b >= 1; break;
    case Number::rows: good = true; break;
    case Number::units: good = n.b >= 1; break;
    case Number::stride:
    case Number::dim: good = n.a < a.operands.size() && n.b < a.rank + a.operands[n.a].gathered; break;
  }
  if (!good) fail(Code::format, "a fused step's arguments name a number that does not exist");
}

void check(const FusedCudaArgs& a) {
  auto require = [](bool good, const char* what) {
    if (!good) fail(Code::format, "a fused step's arguments are damaged: {}", what);
  };
  require(a.rank >= 1 && a.rank <= max_domain_rank && a.row_rank >= 1 && a.row_rank <= a.rank, "domain");
  require(!a.operands.empty() && a.operands.size() <= max_operands && a.stores >= 1 && a.stores <= a.operands.size(), "operands");
  for (const auto& o : a.operands) require(static_cast<int>(o.dtype) < ir::dtype_count && o.gathered <= max_domain_rank, "operand");
  require(!a.groups.empty() && a.outer < a.groups.size(), "groups");
  uint32_t covered = 0;
  for (const auto& g : a.groups) {
    require(g.last >= g.first && g.last < a.rank, "group");
    const uint32_t axes = (uint32_t{2} << g.last) - (uint32_t{1} << g.first);
    require((covered & axes) == 0, "group");
    covered |= axes;
  }
  for (const auto& n : a.numbers) check_number(a, n);
  for (const auto& k : a.known) check_number(a, k.number);
  require(!a.variants.empty(), "variants");
  for (const auto& v : a.variants) {
    using Variant = FusedCudaArgs::Variant;
    const bool whole_warps = v.threads >= 32 && v.threads <= backend::cuda::hardware::max_threads && v.threads % 32 == 0;
    require(v.mapping <= Variant::tile && v.vector >= 1 && v.vector <= 16 && v.units >= 1 && whole_warps, "variant");
    require(!v.fitted || v.mapping == Variant::block, "threads");
    if (v.mapping == Variant::warp) require(v.lanes >= 1 && v.lanes <= 32 && (v.lanes & (v.lanes - 1)) == 0, "lanes");
    if (v.mapping == Variant::column) require(v.lanes * 32 == v.threads, "columns");
    if (v.mapping == Variant::tile) {
      const bool whole = v.threads * v.units == FusedCudaArgs::tile * FusedCudaArgs::tile && v.vector == 1 && !v.wide && !v.reread;
      require(whole && a.outer == 0 && size_t{v.across} + 1 < a.groups.size(), "tile");
    }
  }
}

}  // namespace

std::vector<std::byte> serialise(const FusedCudaArgs& a) {
  return to_bytes(magic, a, [](auto& stream, auto& args) { fields(stream, args); });
}

FusedCudaArgs parse_fused_cuda(std::span<const std::byte> bytes) {
  auto a = from_bytes<FusedCudaArgs>(bytes, magic, "a fused step's arguments", [](auto& stream, auto& args) { fields(stream, args); });
  check(a);
  return a;
}

}  // namespace ingot::kernels
