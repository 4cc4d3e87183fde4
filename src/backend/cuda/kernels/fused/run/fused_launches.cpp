#include "backend/cuda/kernels/fused/run/fused_launches.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "base/error.h"

namespace ingot::kernels {

namespace {

using Number = FusedCudaArgs::Number;
using Variant = FusedCudaArgs::Variant;

constexpr int64_t narrow_limit = int64_t{INT32_MAX} + 1;  // 32-bit indices count below this

// The smallest shift and its factor with x * factor >> shift == x / d for all x < 2^31. With 2^l >= d the factor's relative error is below 2^l
// / 2^(31 + l), so the error of the result is below 1.
int64_t magic_of(int64_t d) {
  auto n = static_cast<uint64_t>(std::clamp<int64_t>(d, 1, narrow_limit - 1));
  auto l = static_cast<uint64_t>(std::bit_width(n - 1));
  uint64_t shift = 31 + l, factor = ((uint64_t{1} << shift) + n - 1) / n;
  return static_cast<int64_t>(factor | shift << 32);
}

void check_counts(const FusedCudaArgs& args, size_t operands, size_t sizes) {
  if (operands != args.operands.size()) fail(Code::format, "a fused step has {} operands, its arguments {}", operands, args.operands.size());
  if (sizes != args.sizes + args.rank) fail(Code::format, "a fused step has {} sizes, its arguments {}", sizes, args.sizes + args.rank);
}

class Resolver {
 public:
  Resolver(const FusedCudaArgs& args, std::span<const TensorRef> operands, std::span<const int64_t> sizes, size_t shared_block)
      : a_(args), operands_(operands), sizes_(sizes), shared_(shared_block) {
    check_counts(args, operands.size(), sizes.size());
    auto extents = sizes.last(a_.rank);
    domain_.assign(extents.begin(), extents.end());
    int64_t elements = 1;
    for (int64_t n : domain_) {
      if (n < 0 || __builtin_mul_overflow(elements, std::max<int64_t>(n, 1), &elements) || elements > max_domain_elements)
        fail(Code::format, "a fused step has an impossible domain");
    }
    take_operands();
    take_groups();
  }

  FusedLaunch run() {
    for (const FusedCudaArgs::Known& k : a_.known) {
      if (matters(k.number) && value(k.number) != k.value) {
        fail(Code::format, "a fused step was compiled for {} (kind {}, {}, {}) and gets {}", k.value, static_cast<int>(k.number.kind), k.number.a, k.number.b, value(k.number));
      }
    }
    FusedLaunch out;
    const bool of_points = a_.variants[0].mapping == Variant::points || a_.variants[0].mapping == Variant::tile, rows_only = a_.outer > 0 || !of_points;
    bool empty = rows_ == 0 || (!rows_only && units(1) == 0);
    if (!empty) {
      std::optional<FusedLaunch::Grid> first, any;
      for (size_t v = 0; v < a_.variants.size() && !any; ++v) {
        auto g = grid(static_cast<uint32_t>(v));
        if (!g) continue;
        if (!first) first = g;
        if (a_.variants[v].vector == 1) any = g;
      }
      if (!first) fail(Code::unsupported, "a fused step over {} rows of {} elements is too large for its kernels", rows_, units(1));
      out.aligned = *first;
      out.any = any;
    }
    for (const auto& o : a_.operands) {
      uint32_t bytes = static_cast<uint32_t>(ir::size_of(o.dtype)), together = a_.variants[out.aligned.variant].vector;
      out.alignment.push_back(o.vector ? std::min<uint32_t>(16, bytes * together) : bytes);
    }
    out.parameters.resize(8 * (1 + a_.operands.size() + a_.numbers.size()));
    for (size_t k = 0; k < a_.numbers.size(); ++k) {
      int64_t v = value(a_.numbers[k]);
      std::memcpy(out.parameters.data() + 8 * (1 + a_.operands.size() + k), &v, 8);
    }
    return out;
  }

 private:
  void take_operands() {
    for (size_t k = 0; k < operands_.size(); ++k) {
      const TensorRef& t = operands_[k];
      const FusedCudaArgs::Operand& o = a_.operands[k];
      if (t.dtype != o.dtype) fail(Code::format, "operand {} of a fused step is {}, its kernel takes {}", k, ir::name_of(t.dtype), ir::name_of(o.dtype));
      if (t.rank != a_.rank + o.gathered) fail(Code::format, "operand {} of a fused step has rank {}", k, t.rank);
      std::vector<int64_t> strides(t.strides, t.strides + t.rank);
      bool written = k + a_.stores >= operands_.size();
      for (int axis = 0; axis < a_.rank && !o.guarded; ++axis) {
        auto d = static_cast<size_t>(axis);
        bool all = t.dims[axis] == domain_[d];
        if (!all && t.dims[axis] != 1) fail(Code::format, "operand {} of a fused step has size {} on axis {} of size {}", k, t.dims[axis], axis, domain_[d]);
        if (!all) strides[d] = 0;
        if (written && !all && axis < a_.rank - a_.row_rank) fail(Code::format, "a fused step writes one element several times");
      }
      strides_.push_back(std::move(strides));
    }
  }

  void take_groups() {
    std::vector<uint8_t> covered(a_.rank, 0);
    for (size_t g = 0; g < a_.groups.size(); ++g) {
      size_t first = a_.groups[g].first, last = a_.groups[g].last;
      int64_t n = 1;
      for (size_t axis = first; axis <= last; ++axis) {
        covered[axis] = 1;
        n *= domain_[axis];
      }
      size_t walked = a_.rank;  // one past the last axis with a stride
      for (size_t axis = last + 1; axis-- > first && n > 0;) {
        if (domain_[axis] == 1) continue;
        for (auto& s : strides_) {
          if (walked == a_.rank) {
            s[last] = s[axis];  // the group's stride
          } else if (s[axis] != s[walked] * domain_[walked]) {
            fail(Code::format, "operands of a fused step cannot be walked as its kernel does");
          }
        }
        walked = axis;
      }
      extents_.push_back(n);
      if (g < a_.outer) rows_ *= n;
    }
    for (size_t axis = 0; axis < a_.rank; ++axis) {
      if (!covered[axis] && domain_[axis] != 1) fail(Code::format, "a fused step was compiled for size 1 on axis {} and gets {}", axis, domain_[axis]);
    }
  }

  // Units of a row, or of the whole domain if there are no rows.
  int64_t units(int64_t vector) const {
    int64_t n = 1;
    for (size_t g = a_.outer; g < extents_.size(); ++g) n *= extents_[g];
    return n / vector;
  }

  // A stride of an axis of size 1 is never used and may be anything.
  bool matters(const Number& n) const {
    if (n.kind != Number::stride) return true;
    for (size_t g = 0; g < a_.groups.size(); ++g) {
      if (n.b >= a_.groups[g].first && n.b <= a_.groups[g].last && extents_[g] <= 1) return false;
    }
    return true;
  }

  int64_t value(const Number& n) const {
    switch (n.kind) {
      case Number::size: return sizes_[n.a];
      case Number::extent: return extents_[n.a] / n.b;
      case Number::magic: return magic_of(extents_[n.a] / n.b);
      case Number::rows: return rows_;
      case Number::units: return units(n.b);
      case Number::stride: return strides_[n.a][n.b];
      case Number::dim: return operands_[n.a].dims[n.b];
    }
    return 0;
  }

  // True if every access of `vector` elements starts at a multiple of them.
  bool vectors_fit(int64_t vector) const {
    if (extents_.back() % vector != 0) return false;
    size_t inner = a_.groups.back().last;
    for (size_t k = 0; k < operands_.size(); ++k) {
      if (!a_.operands[k].vector) continue;
      auto bytes = static_cast<int64_t>(ir::size_of(a_.operands[k].dtype));
      int64_t together = std::min<int64_t>(16, bytes * vector);
      for (size_t axis = 0; axis < strides_[k].size(); ++axis) {
        bool walked = axis >= a_.rank || domain_[axis] != 1 || a_.operands[k].guarded;
        bool inside = axis >= a_.groups.back().first && axis <= inner;
        if (walked && !inside && strides_[k][axis] * bytes % together != 0) return false;
      }
    }
    return true;
  }

  std::optional<FusedLaunch::Grid> grid(uint32_t index) const {
    const Variant& v = a_.variants[index];
    if (v.vector > 1 && !vectors_fit(v.vector)) return std::nullopt;
    int64_t n = units(v.vector), blocks = 0, threads = v.threads;
    // Rows and units are divided (divided() works below 2^31); elements are only counted.
    if (!v.wide && (rows_ >= narrow_limit || n >= narrow_limit || n * v.vector >= 2 * narrow_limit)) return std::nullopt;
    switch (v.mapping) {
      case Variant::points: blocks = (n + threads * v.units - 1) / (threads * v.units); break;
      case Variant::warp:
      case Variant::block:
      case Variant::column: blocks = (rows_ + v.rows_of_block() - 1) / v.rows_of_block(); break;
      case Variant::tile: {
        const int64_t across = extents_[v.across], last = extents_.back();
        if (std::min(across, last) < FusedCudaArgs::min_transposed_extent) return std::nullopt;
        auto tiles = [](int64_t extent) { return (extent + FusedCudaArgs::tile - 1) / FusedCudaArgs::tile; };
        blocks = n / (across * last) * tiles(across) * tiles(last);
        break;
      }
    }
    if (v.mapping != Variant::points && v.mapping != Variant::tile && !v.reread) {
      if (v.fitted) threads = std::min<int64_t>(threads, ((n + v.units - 1) / v.units + 31) / 32 * 32);  // as few warps as hold the row
      int64_t lanes = v.mapping == Variant::block ? threads : v.lanes;
      if (n < 1 || n > lanes * v.units) return std::nullopt;
    }
    int64_t shared = n * v.vector * v.kept;
    if (v.kept > 0 && shared + static_cast<int64_t>(fused_cuda_tuning::static_shared) > static_cast<int64_t>(shared_)) return std::nullopt;
    if (blocks >= narrow_limit) return std::nullopt;
    return FusedLaunch::Grid{index, static_cast<uint32_t>(blocks), static_cast<uint32_t>(threads), static_cast<uint32_t>(shared)};
  }

  const FusedCudaArgs& a_;
  std::span<const TensorRef> operands_;
  std::span<const int64_t> sizes_;
  std::vector<int64_t> domain_, extents_;          // of axes; of groups
  std::vector<std::vector<int64_t>> strides_;      // 0 where an operand is broadcast
  int64_t rows_ = 1;
  size_t shared_;
};

}  // namespace

FusedLaunch resolve_fused_cuda(const FusedCudaArgs& args, std::span<const TensorRef> operands, std::span<const int64_t> sizes, size_t shared_block) {
  return Resolver(args, operands, sizes, shared_block).run();
}

std::shared_ptr<const void> load_fused_cuda(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<FusedCudaArgs>(parse_fused_cuda(constants));
  check_counts(*args, operands, sizes);
  return args;
}

CudaLaunches fused_cuda_launches(const Call& call, const CudaMachine&) {
  const auto& args = *static_cast<const FusedCudaArgs*>(call.constants);
  const FusedLaunch made = resolve_fused_cuda(args, call.operands, call.sizes, 0);
  std::vector<CudaLaunch::Pointer> pointers{{CudaLaunch::Pointer::status, 0}};
  for (size_t k = 0; k < args.operands.size(); ++k) pointers.push_back({CudaLaunch::Pointer::operand, 8 * (1 + k), k});
  CudaLaunches out;
  for (const FusedLaunch::Grid* g : {made.any ? &*made.any : nullptr, &made.aligned}) {
    out.any.swap(out.list);
    if (g != nullptr) out.add_bytes(g->kernel(args), g->blocks, g->threads, made.parameters, pointers);
    for (CudaLaunch& l : out.list) l.overlaps = l.spare = true;
  }
  for (size_t k = 0; k < args.operands.size(); ++k) {
    if (made.alignment[k] > ir::size_of(args.operands[k].dtype)) out.aligned.push_back(k);
  }
  return out;
}

std::string FusedLaunch::Grid::kernel(const FusedCudaArgs& args) const { return fmt::format("{}_{}", args.name, variant); }

const FusedLaunch::Grid& FusedLaunch::bind(std::span<const TensorRef> operands, uint64_t status) {
  bool good = true;
  std::memcpy(parameters.data(), &status, 8);
  for (size_t k = 0; k < operands.size(); ++k) {
    auto address = reinterpret_cast<uint64_t>(operands[k].data);
    good = good && address % alignment[k] == 0;
    std::memcpy(parameters.data() + 8 * (1 + k), &address, 8);
  }
  if (good || aligned.blocks == 0) return aligned;
  if (!any) fail(Code::format, "an operand of a fused step is at an unaligned address, for which the plan has no code");
  return *any;
}

}  // namespace ingot::kernels
