#include "backend/cuda/kernels/gemm/run/gemm_launches.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>

#include "backend/cuda/kernels/gemm/run/gemm_args.h"
#include "backend/cuda/kernels/gemm/tiles/run/tile_maps_args.h"
#include "backend/cuda/kernels/run/numbers.h"
#include "backend/cuda/run/launch.h"
#include "base/error.h"
#include "base/hash.h"
#include "kernels/run/index_map.h"

namespace ingot::kernels {

namespace {

using Pointer = CudaLaunch::Pointer;
using P = GemmParameters;

void require(bool good, const char* what) {
  if (!good) fail(Code::format, "the operands of an implicit_gemm step do not fit: {}", what);
}

// Checks that the constants and the operands agree.
void check(const GemmArgs& args, const Call& call) {
  const int64_t m = call.sizes[0], n = call.sizes[1], k = call.sizes[2];
  const TensorRef &a = call.operands[0], &b = call.operands[args.left()];
  require(args.has_prologue() || a.dtype == args.type, "types");
  int64_t columns = 0;
  const int last = args.row_rank;  // the axis of columns
  for (size_t i = args.left(); i < args.behind(); ++i) {
    const TensorRef& part = call.operands[i];
    require(part.dtype == args.b_type && part.rank == last + 1 && part.dims[last - 1] == k &&
                (args.pieces == 1 || (part.dims[1] % 8 == 0 && part.strides[0] == b.strides[0] && part.strides[1] == b.strides[1])),
            "the right matrices");
    for (int axis = 0; axis < last - 1; ++axis) require(part.dims[axis] == 1 || part.strides[axis] == 0, "the right matrices");
    columns += part.dims[last];
  }
  require((args.has_prologue() || a.rank == args.map.rank) && columns == (args.gated ? 2 : 1) * n, "matrices");
  const bool few = args.few_rows && m <= max_skinny_rows;
  require(!(args.has_prologue() || args.pieces > 1 || (args.gated && args.tiles == 0)) || ((m == 1 || few) && k % args.b_together() == 0), "one row");
  require(!args.has_prologue() || k == args.row, "the row");
  for (size_t i = 0; i < args.sources.size(); ++i) {
    const TensorRef& t = call.operands[i];
    const GemmArgs::Source& o = args.sources[i];
    require(t.dtype == o.dtype && static_cast<size_t>(t.rank) == o.dims.size(), "the operands of the prologue");
    for (size_t d = 0; d < o.dims.size(); ++d) require(t.dims[d] == o.dims[d] && (t.dims[d] <= 1 || t.strides[d] == o.strides[d]), "the operands of the prologue");
  }
  const int64_t along = b.strides[args.b_along_k ? last - 1 : last], apart = b.strides[args.b_along_k ? last : last - 1];
  require(((args.b_along_k ? k : n) <= 1 || along == 1) && apart >= 0, "the right matrix");
  require(m >= 0 && n >= 0 && k >= 0 && n % 8 == 0 && m <= INT32_MAX && n <= INT32_MAX && k <= INT32_MAX, "sizes");
  const TensorRef& result = call.operands.back();
  int64_t rows = 1;
  for (int axis = 0; axis < last && axis < result.rank; ++axis) rows *= result.dims[axis];
  require(rows == m, "the body's rows");
  for (size_t i = 0; i < args.operands.size(); ++i) {
    const TensorRef& t = call.operands[args.behind() + i];
    require(t.dtype == args.operands[i].dtype && t.rank == last + 1 + args.operands[i].gathered, "the body's types");
    bool store = i + args.stores >= args.operands.size();
    const bool merged = std::find(args.merged.begin(), args.merged.end(), i) != args.merged.end();
    for (int axis = last - 2; merged && axis >= 0; --axis) require(t.dims[axis] == 1 || t.strides[axis] == t.dims[axis + 1] * t.strides[axis + 1], "the body's rows");
    for (int axis = 0; axis <= last; ++axis) require(t.dims[axis] == (axis == last ? n : result.dims[axis]) || (!store && t.dims[axis] == 1), "the body's sizes");
  }
}

// The map as the kernel iterates over it, without extents of 1. All its counters fit 32 bits.
void walk(const GemmArgs& args, const Call& call, P& p) {
  if (args.has_prologue()) {
    // The prologue's row is in shared memory, contiguous.
    std::fill_n(p.m_extent, 4, 1);
    std::fill_n(p.k_extent, 3, 1);
    p.k_extent[3] = p.k_inner = static_cast<int>(p.k);
    p.k_step[3] = 1;
    return;
  }
  const size_t indices = size_t{args.map.m_rank} + args.map.k_rank;
  const TensorRef& a = call.operands[0];
  auto sizes = call.sizes.subspan(3, indices + args.map.rank);
  for (size_t j = 0; j < args.map.rank; ++j) {
    const int64_t offset = sizes[indices + j];
    require(offset >= -INT32_MAX && offset <= INT32_MAX && a.dims[j] <= INT32_MAX, "the map's offsets");
  }
  for (size_t i = 0; i < indices; ++i) require(sizes[i] >= 0 && sizes[i] <= INT32_MAX, "extents");
  const IndexMap map = resolve_index_map("implicit_gemm", args.map.steps, a, sizes);
  const int guards = args.is_volume() ? 3 : 2, outermost = args.is_volume() ? 0 : 1;
  if (map.axes > guards) fail(Code::unsupported, "a product reads beyond its operand on {} axes, which is not possible on a GPU", map.axes);
  // Each read stays inside A, although the sum of some of its parts may be outside.
  p.base = static_cast<long>(map.start.offset);
  for (int g = 0; g < 3; ++g) {
    int64_t reach = g < map.axes ? map.start.along[g] : 0;
    for (size_t i = 0; g < map.axes && i < indices; ++i) reach += map.indices[i].along[g] * std::max<int64_t>(map.indices[i].extent - 1, 0);
    require(reach <= INT32_MAX, "the map's reach");
    p.origin[g] = g < map.axes ? static_cast<int>(map.start.along[g]) : 0;
    p.inside[g] = g < map.axes ? static_cast<int>(map.size[g]) : 1;
  }
  auto part = [&](std::span<const IndexMap::Index> of, int* extents, long* steps, int(*guarded)[4]) {
    std::fill_n(extents, 4, 1);
    int at = 4;
    for (size_t i = of.size(); i-- > 0;) {
      const IndexMap::Index& index = of[i];
      if (index.extent == 1) continue;
      if (--at < outermost) fail(Code::unsupported, "a product through a map of more than {} indices is not possible on a GPU", 4 - outermost);
      extents[at] = static_cast<int>(index.extent);
      steps[at] = static_cast<long>(index.step);
      for (int g = 0; g < map.axes; ++g) guarded[g][at] = static_cast<int>(index.along[g]);
    }
  };
  const auto of_k = map.indices.begin() + args.map.m_rank;
  part(collapsed({map.indices.begin(), of_k}, map.axes), p.m_extent, p.m_step, p.m_guard);
  part({of_k, map.indices.end()}, p.k_extent, p.k_step, p.k_guard);
  auto times = [](const int* e) { return static_cast<int64_t>(e[0]) * e[1] * e[2] * e[3]; };
  require(times(p.m_extent) == p.m && times(p.k_extent) == p.k, "the map's extents");
  const int64_t each = args.together_of_a(), inner = divided_up(p.k_extent[3], each) * each;
  p.k = inner * p.k_extent[0] * p.k_extent[1] * p.k_extent[2];
  require(p.k <= INT32_MAX, "sizes");
  p.k_inner = static_cast<int>(std::max<int64_t>(inner, each));
}

// Chooses the large tile and the number of blocks that share K, by a model in microseconds fitted to measurements on an H200.
struct Choice {
  size_t tile = 0;
  int64_t splits = 1;
  double microseconds = 0;
  int stages = 0;
  int64_t blocks = 0, turns = 0;  // steps along K of each block
  std::string text() const {
    const LargeTile& t = large_tiles[tile];
    return fmt::format("implicit_gemm {} x {}, {} stages, {} in turn, K by {}", t.rows, t.columns, stages, t.in_turn, splits);
  }
};
// The time of this many blocks of a tile, each of which takes so many steps along K.
double microseconds_of(const LargeTile& t, bool floats, int64_t blocks, int64_t turns, int multiprocessors) {
  constexpr double start = 2;
  const LargeTile::Cost& cost = floats ? t.floats : t.halves;
  const int64_t rounds = divided_up(blocks, multiprocessors);
  const double work = static_cast<double>(turns) * (rounds == 1 ? cost.alone : cost.turn), n = static_cast<double>(rounds), behind = cost.behind;
  // Alternating groups: one multiplies while others run the epilogue.
  return start + (t.in_turn > 0 ? n * std::max(work, (work + behind) / t.in_turn) + behind : n * (work + behind));
}

// All choices, the cheapest first.
std::vector<Choice> choices(const P& p, int64_t turns, int multiprocessors, const GemmArgs& args) {
  constexpr double finish = 2.4, parts = 4e6;  // parts: partial sums per microsecond
  std::vector<Choice> out;
  for (size_t k = 0; k < std::size(large_tiles); ++k) {
    const LargeTile& t = large_tiles[k];
    if ((args.tiles >> k & 1) == 0 || t.shared(args.column_bytes, args.boxed_bytes()) > large_tile_shared || !t.takes(p.n, args.gated, args.type == ir::DType::f32)) continue;
    const int64_t blocks = t.grid(p.m, p.n, args.gated);
    for (int64_t splits = 1; splits <= (t.in_turn > 0 || args.gated ? 1 : 16) && splits <= std::max<int64_t>(1, turns / 4); ++splits) {
      const double shared = splits == 1 ? 0 : finish + static_cast<double>(p.m * p.n * splits) * 8 / parts,
                   of_tile = microseconds_of(t, args.type == ir::DType::f32, blocks * splits, divided_up(turns, splits), multiprocessors);
      out.push_back({k, splits, of_tile + shared, t.stages_beside(args.boxed_bytes()), blocks * splits, divided_up(turns, splits)});
    }
  }
  if (out.empty()) out.emplace_back();
  std::stable_sort(out.begin(), out.end(), [](const Choice& x, const Choice& y) { return x.microseconds < y.microseconds; });
  return out;
}

// The kernel for few channels that matches A's layout, and its parameters.
struct Patch {
  size_t kernel = 0;
  P p;
};
std::optional<Patch> patch_of(const GemmArgs& args, const Call& call, P p) {
  const size_t indices = size_t{args.map.m_rank} + args.map.k_rank;
  const TensorRef& a = call.operands[0];
  const auto sizes = call.sizes.subspan(3, indices + args.map.rank);
  const auto walk = args.patches.empty() ? std::nullopt : im2col_2d_axes(args.map, sizes);
  if (!walk) return std::nullopt;
  auto extent = [&](int index) { return sizes[static_cast<size_t>(index)]; };
  auto along = [&](int axis, int index) { return args.map.steps[static_cast<size_t>(axis) * indices + static_cast<size_t>(index)]; };
  // The map never leaves the other axes.
  for (int j = 0; j < a.rank; ++j) {
    int64_t last = 0;
    for (size_t i = 0; i < indices; ++i) last += along(j, static_cast<int>(i)) * std::max<int64_t>(sizes[i] - 1, 0);
    if (j != walk->h && j != walk->w && last >= a.dims[j]) return std::nullopt;
  }
  const Im2col2d& n = walk->numbers;
  for (size_t k = 0; k < args.patches.size(); ++k) {
    const Im2col2d& s = args.patches[k];
    bool same = s.channels == n.channels && (s.last == 0 || (walk->c >= 0 && a.strides[walk->c] == 1)) && a.strides[walk->w] == s.inner();
    for (int d = 0; d < 2; ++d) same = same && s.kernel[d] == n.kernel[d] && s.stride[d] == n.stride[d] && s.pad[d] == n.pad[d];
    const int64_t line = a.dims[walk->w] * s.inner(), y = extent(walk->y), x = extent(walk->x);
    constexpr int64_t most = INT32_MAX / 2;
    if (!same || line > most || p.b_step > most / std::max<int64_t>(1, args.b_along_k ? p.n : p.k) || (y + s.down) * s.stride[0] > most || (x + s.across) * s.step() > most)
      continue;
    int64_t image = 0;
    for (int j = 0; walk->image >= 0 && j < a.rank; ++j) image += along(j, walk->image) * a.strides[j];
    p.m_extent[0] = walk->image < 0 ? 1 : static_cast<int>(extent(walk->image));
    p.m_extent[1] = static_cast<int>(y);
    p.m_extent[2] = static_cast<int>(x);
    p.m_step[0] = image;
    p.k_step[0] = walk->c < 0 || s.last != 0 ? 0 : a.strides[walk->c];
    p.k_step[1] = a.strides[walk->h];
    p.inside[0] = static_cast<int>(a.dims[walk->h]);
    p.inside[1] = static_cast<int>(line);
    p.whole = line % s.each() == 0 && image % s.each() == 0 && p.k_step[0] % s.each() == 0 && p.k_step[1] % s.each() == 0;
    return Patch{k, p};
  }
  return std::nullopt;
}

// The parameters of the kernel for bricks, if it can read A.
std::optional<P> brick_of(const GemmArgs& args, const Call& call, const P& all) {
  if (args.bricks.empty()) return std::nullopt;
  const Im2col3d& s = args.bricks[0];
  const TensorRef& a = call.operands[0];
  const size_t indices = size_t{args.map.m_rank} + args.map.k_rank;
  const auto sizes = call.sizes.subspan(3, indices + args.map.rank);
  const auto walk = im2col_3d_axes(args.map, sizes);
  if (!walk || walk->numbers.channels != s.channels || walk->numbers.last != s.last) return std::nullopt;
  constexpr int64_t most = INT32_MAX / 4;
  auto extent = [&](int index) { return index < 0 ? int64_t{1} : sizes[static_cast<size_t>(index)]; };
  auto stride = [&](int axis) { return axis < 0 ? int64_t{0} : a.strides[axis]; };
  if ((walk->channel >= 0 && a.dims[walk->channel] < s.channels) || (walk->images >= 0 && a.dims[walk->images] < extent(walk->image))) return std::nullopt;
  P p = all;
  p.base = 0;
  p.m_extent[0] = static_cast<int>(extent(walk->image));
  p.m_step[0] = stride(walk->images);
  p.k_step[0] = stride(walk->channel);
  for (size_t d = 0; d < 3; ++d) {
    const int axis = walk->axis[d];
    const int64_t places = extent(walk->place[d]), inside = a.dims[axis];
    if (walk->numbers.kernel[d] != s.kernel[d] || places > most || inside > most) return std::nullopt;
    p.m_extent[1 + d] = static_cast<int>(places);
    p.m_step[1 + d] = stride(axis);
    p.origin[d] = static_cast<int>(sizes[indices + static_cast<size_t>(axis)]);
    p.inside[d] = static_cast<int>(inside);
  }
  const bool pieces = p.k_step[0] == 1 && std::all_of(std::begin(p.m_step), std::end(p.m_step), [&](long step) { return step % s.each() == 0; });
  return s.narrow() || pieces ? std::optional(p) : std::nullopt;
}

class Launches {
 public:
  Launches(const GemmArgs& args, const Call& call, const CudaMachine& machine)
      : args_(args),
        call_(call),
        machine_(machine),
        first_(args.behind()),
        numbers_{call.operands.subspan(first_), call.sizes.last(args.sizes)},
        sources_{call.operands.first(args.sources.size()), {}} {
    numbers_.check(args.known, "an implicit_gemm");
    problem_ = problem_of(call);
    p_.m = call.sizes[0];
    p_.n = call.sizes[1];
    p_.k = call.sizes[2];
    p_.b_step = call.operands[args.left()].strides[args.b_along_k ? args.row_rank : args.row_rank - 1];
    int64_t from = 0;
    for (size_t i = 1; i < args.pieces && args.pieces <= max_gemv_pieces; ++i) {
      from += call.operands[args.left() + i - 1].dims[1];
      p_.beside_from[i - 1] = static_cast<int>(from);
    }
    walk(args, call, p_);
    // Pieces of 16 bytes are read at once if all of them are aligned.
    const int64_t each = args.together_of_a();
    bool a = p_.base % each == 0 && in_pieces(), b = p_.b_step % args.b_together() == 0, others = true;
    for (int i = 0; i < 4; ++i) a = a && p_.m_step[i] % each == 0 && (i == 3 || p_.k_step[i] % each == 0);
    for (size_t k = 0; k < args.sources.size(); ++k) {
      if (args.sources[k].together) aligned_.push_back(k);
    }
    for (uint8_t k : args.together) {
      const TensorRef& x = numbers_.operands[k];
      for (int axis = 0; axis < x.rank; ++axis) others = others && (axis == args.row_rank || x.dims[axis] == 1 || x.strides[axis] % 8 == 0);
      aligned_.push_back(first_ + k);
    }
    has_few_ = args.few_rows && p_.m > 1 && p_.m <= max_skinny_rows && in_pieces() && p_.k == p_.k_inner &&
               std::all_of(std::begin(p_.m_guard), std::end(p_.m_guard), [](const auto& of) { return std::all_of(of, of + 4, [](int step) { return step == 0; }); });
    require(args.pieces == 1 || has_few_ || (p_.m == 1 && args.pieces <= max_gemv_pieces), "few rows");
    if (others && !has_few_) brick_ = brick_of(args, call, p_);
    if (others && !has_few_ && !a && !brick_) patch_ = patch_of(args, call, p_);
    way_ = brick_ ? Way::brick : patch_ ? Way::patch : !others || !b ? Way::any : a ? Way::together : has_few_ ? Way::any : Way::one;
    if (brick_ ? !args.bricks[0].narrow() : patch_ ? patch_->p.whole != 0 : a && !args.has_prologue()) aligned_.push_back(0);
    for (size_t i = args.left(); i < args.behind() && !patch_ && !brick_; ++i) aligned_.push_back(i);
  }

  const std::string& problem() const { return problem_; }
  // Of tiles that the copying unit fills, for all operands aligned. Empty: it does not.
  std::vector<Choice> choices_of_tiles() const {
    P p = p_;
    std::vector<CudaTiles> boxes;
    if (has_few_ || way_ != Way::together || !machine_.tiles || args_.tiles == 0 || !boxes_behind(boxes)) return {};
    const auto tiles = tiles_of(args_, p);
    return tiles ? choices(p, tiles->taps * tiles->chunks, machine_.multiprocessors, args_) : std::vector<Choice>();
  }

  CudaLaunches run() {
    CudaLaunches out = launches(way_);
    if (way_ == Way::any) return out;
    out.aligned = aligned_;
    CudaLaunches any = launches(Way::any);
    out.any = std::move(any.list);
    out.scratch = std::max(out.scratch, any.scratch);
    return out;
  }

 private:
  // Which operands are accessed in vectors of eight: all; only the epilogue's (A has few channels), twice; all but A; none.
  enum class Way { together, patch, brick, one, any };
  // True if the innermost index of K consists of whole pieces of adjacent elements, all of them inside A.
  bool in_pieces() const {
    return p_.k_extent[3] == p_.k_inner && p_.k_step[3] == 1 && std::all_of(std::begin(p_.k_guard), std::end(p_.k_guard), [](const auto& of) { return of[3] == 0; });
  }
  // Everything on which times depend. The name is a hash of the epilogue's text.
  std::string problem_of(const Call& call) const {
    std::vector<int64_t> layouts(call.sizes.begin(), call.sizes.end());
    for (const TensorRef& t : call.operands) {
      layouts.insert(layouts.end(), t.dims, t.dims + t.rank);
      layouts.insert(layouts.end(), t.strides, t.strides + t.rank);
    }
    return fmt::format("{}: {} x {} x {}, layouts {:016x}", args_.name, call.sizes[0], call.sizes[1], call.sizes[2], hash64(std::as_bytes(std::span(layouts))));
  }
  // The wanted choice (see wanted_choice), else the one that the model prefers. Those that the model finds nearly as fast can be timed.
  Choice choose(const std::vector<Choice>& all, CudaLaunches& list) const {
    constexpr size_t most = 8;
    constexpr double near = 2;
    list.problem = problem_;
    for (const Choice& c : all) {
      if (list.choices.size() < most && c.microseconds <= near * all[0].microseconds) list.choices.push_back(c.text());
    }
    const std::string_view wanted = wanted_choice(call_, machine_, problem_);
    const auto found = std::find_if(all.begin(), all.end(), [&](const Choice& c) { return !wanted.empty() && c.text() == wanted; });
    return found == all.end() ? all[0] : *found;
  }
  // Adds the tensor maps of the epilogue's operands that the tile kernels copy in boxes. False if the copying unit cannot describe one.
  bool boxes_behind(std::vector<CudaTiles>& out) const {
    auto add = [&](uint8_t k, size_t at) {
      if (k == GemmArgs::none) return true;
      const TensorRef& x = numbers_.operands[k];
      const auto size = static_cast<int64_t>(ir::size_of(args_.type));
      const int64_t step = (p_.m == 1 ? p_.n : x.strides[args_.row_rank - 1]) * size;
      if (std::accumulate(x.dims, x.dims + args_.row_rank, int64_t{1}, std::multiplies()) != p_.m || step <= 0 || step % 16 != 0 || step >= int64_t{1} << 39) return false;
      CudaTiles t;
      t.at = at;
      t.index = first_ + k;
      t.dtype = args_.type;
      t.dims = {static_cast<uint64_t>(p_.n), 1, static_cast<uint64_t>(p_.m)};
      t.strides = {static_cast<uint64_t>(step), static_cast<uint64_t>(step)};
      t.box = {static_cast<uint32_t>(gemm_row_bytes / size), 1, 64};
      out.push_back(t);
      return true;
    };
    return add(args_.boxed_in, offsetof(P, in_tiles)) && add(args_.boxed_out, offsetof(P, out_tiles));
  }
  // The parameters `piece` and `piece_from`.
  void append_pieces(std::vector<std::byte>& parameters, std::vector<Pointer>& pointers) const {
    size_t at = parameters.size();
    for (size_t i = 0; i < args_.pieces; ++i, at += sizeof(uint64_t)) pointers.push_back({Pointer::operand, at, args_.left() + i});
    parameters.resize(at + args_.pieces * sizeof(int32_t));
    for (size_t i = 0, from = 0; i < args_.pieces; ++i, at += sizeof(int32_t)) {
      const auto first = static_cast<int32_t>(from);
      std::memcpy(parameters.data() + at, &first, sizeof first);
      from += static_cast<size_t>(call_.operands[args_.left() + i].dims[args_.row_rank]);
    }
  }
  CudaLaunches launches(Way way) const {
    const bool together = way == Way::together;
    CudaLaunches list;
    P p = way == Way::patch ? patch_->p : way == Way::brick ? *brick_ : p_;
    std::vector<Pointer> own = {{Pointer::operand, offsetof(P, a), 0}, {Pointer::operand, offsetof(P, b), args_.left()}};
    for (size_t i = 1; i < args_.pieces && !has_few_; ++i) own.push_back({Pointer::operand, offsetof(P, beside) + 8 * (i - 1), args_.left() + i});
    auto add = [&](const std::string& kernel, int64_t blocks, int threads, int shared, bool overlaps = true) {
      std::vector<std::byte> parameters(sizeof p);
      std::memcpy(parameters.data(), &p, sizeof p);
      std::vector<Pointer> pointers = own;
      numbers_.append(parameters, pointers, args_.numbers, first_);
      if (args_.has_prologue()) sources_.append(parameters, pointers, {}, 0);
      if (has_few_ && args_.pieces > 1) append_pieces(parameters, pointers);
      parameters.resize(static_cast<size_t>(divided_up(static_cast<int64_t>(parameters.size()), alignof(P))) * alignof(P));
      list.add_bytes(fmt::format("{}_{}{}", args_.name, way == Way::any ? "any_" : "", kernel), blocks, static_cast<uint32_t>(threads), std::move(parameters), std::move(pointers));
      list.list.back().shared = static_cast<uint32_t>(shared);
      list.list.back().overlaps = overlaps;
    };
    p.splits = p.turns = 1;
    if (p.m == 0 || p.n == 0) return list;
    auto extent = [&](int i) { return int64_t{p.m_extent[i]}; };
    // Blocks that stay for all their tiles.
    auto add_lasting = [&](const std::string& kernel, const auto& s, int64_t tiles, int64_t sides) {
      const int64_t room = std::max<int64_t>(1, int64_t{s.blocks()} * machine_.multiprocessors / sides);
      add(kernel, std::min(tiles, room) * sides, s.threads(), s.shared());
      list.list.back().pieces = static_cast<uint32_t>(std::min<int64_t>(tiles * sides, INT32_MAX));
    };
    if (way == Way::brick) {
      const Im2col3d& s = args_.bricks[0];
      add_lasting("brick", s, extent(0) * divided_up(extent(1), s.deep) * divided_up(extent(2), s.down()) * divided_up(extent(3), s.across), divided_up(p.n, int64_t{16} * s.wide));
      return list;
    }
    if (way == Way::patch) {
      const Im2col2d& s = args_.patches[patch_->kernel];
      add_lasting(fmt::format("patch_{}", patch_->kernel), s, extent(0) * divided_up(extent(1), s.down) * divided_up(extent(2), s.across), divided_up(p.n, int64_t{32} * s.wide));
      return list;
    }
    if (has_few_) {
      add("rows", std::min(p.n / 8, int64_t{gemv_blocks} * machine_.multiprocessors), gemv_threads, (args_.gated ? 2 : 1) * skinny_shared, false);
      return list;
    }
    // For one row, K is a single index. Int8 numbers are multiplied with the row in shared memory.
    const bool kept = args_.b_type != args_.type;
    if (p.m == 1 && args_.b_along_k && args_.type != ir::DType::f32 && (!kept || p.k <= max_gemv_k) && in_pieces() && p.k % args_.b_together() == 0 && p.k == p.k_inner) {
      // The kernel for int8 overlaps the end of the previous kernel: it copies its first columns to shared memory meanwhile (H100, 8 layers: 0.826 ms with overlap,
      // 0.885 without). The kernel for halves does not: its waiting blocks would take room from others (1.43 ms with overlap, 1.32 without).
      add("row", std::min(p.n / 8, int64_t{gemv_blocks} * machine_.multiprocessors), gemv_threads,
          (args_.gated ? 2 : 1) * gemv_shared + (args_.has_prologue() || kept ? 2 * static_cast<int>(p.k) : 0) + (kept ? gemv_ring : 0), kept);
      return list;
    }
    auto share = [&](int64_t turns, int64_t splits) {
      p.turns = static_cast<int>(std::max<int64_t>(1, divided_up(turns, splits)));
      p.splits = static_cast<int>(std::max<int64_t>(1, divided_up(turns, p.turns)));
      if (p.splits > 1) own.push_back({Pointer::scratch, offsetof(P, parts), 0, list.reserve(4 * p.splits * p.m * p.n)});
    };
    auto finish = [&] {
      if (p.splits > 1) add("finish", divided_up(p.m * p.n / 8, gemm_finish_threads), gemm_finish_threads, 0);
    };
    std::vector<CudaTiles> boxes;
    if (auto tiles = together && machine_.tiles && args_.tiles != 0 && boxes_behind(boxes) ? tiles_of(args_, p) : std::nullopt) {
      p.taps = static_cast<int>(tiles->taps);
      p.chunks = static_cast<int>(tiles->chunks);
      const int64_t turns = tiles->taps * tiles->chunks;
      const Choice choice = choose(choices(p, turns, machine_.multiprocessors, args_), list);
      const LargeTile& t = large_tiles[choice.tile];
      share(turns, choice.splits);
      const auto depth = static_cast<uint32_t>(depth_of(args_));
      const auto rows = static_cast<uint32_t>(t.rows), columns = static_cast<uint32_t>(t.results(args_.gated)), cluster = static_cast<uint32_t>(t.cluster);
      tiles->a.box = tiles->a.pixels ? std::array<uint32_t, 4>{depth, rows} : std::array<uint32_t, 4>{depth, 1, rows};
      tiles->b.box = args_.b_along_k ? std::array<uint32_t, 4>{depth, 1, columns / cluster} : std::array<uint32_t, 4>{64, depth / cluster, 1};
      const int64_t blocks = t.grid(p.m, p.n, args_.gated) * p.splits;
      add(fmt::format("t{}", choice.tile), t.in_turn > 0 ? std::min<int64_t>(blocks, machine_.multiprocessors / t.cluster * t.cluster) : blocks, t.threads(),
          t.shared(args_.column_bytes, args_.boxed_bytes()));
      list.list.back().pieces = static_cast<uint32_t>(std::min<int64_t>(blocks, INT32_MAX));
      list.list.back().spare = true;
      boxes.push_back(tiles->a);
      boxes.push_back(tiles->b);
      list.list.back().tiles = std::move(boxes);
      finish();
      return list;
    }
    const int64_t halves = args_.gated ? 2 : 1;
    auto blocks_of = [&](const WarpTile& t) { return divided_up(p.m, t.rows) * divided_up(halves * p.n, t.columns); };
    // Large tiles read less; small ones use more multiprocessors and waste less on a narrow result. K is split if there are still too few blocks.
    const int size = together && halves * p.n > warp_tiles[1].columns && blocks_of(warp_tiles[0]) >= machine_.multiprocessors ? 0 : 1;
    const WarpTile& tile = warp_tiles[size];
    const int64_t turns = divided_up(p.k, depth_of(args_)), blocks = blocks_of(tile);
    constexpr int64_t least_turns = 2;
    // Blocks that copy elements one by one wait for them: four share a multiprocessor, where two do that copy pieces.
    const int64_t filled = int64_t{machine_.multiprocessors} * (together ? 2 : 4), wanted = args_.gated || (together ? 4 : 2) * blocks > filled ? 1 : filled / blocks;
    const int64_t splits = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, turns / least_turns));
    share(turns, splits);
    add((way == Way::one ? "one_" : "") + std::to_string(size), blocks * p.splits, tile.threads, gemm_stages * gemm_row_bytes * (tile.rows + tile.columns));
    finish();
    return list;
  }

  const GemmArgs& args_;
  const Call& call_;
  const CudaMachine& machine_;
  std::string problem_;
  size_t first_;  // index of the body's first operand
  CudaNumbers numbers_, sources_;
  P p_{};
  std::optional<Patch> patch_;
  std::optional<P> brick_;
  bool has_few_;  // the kernel for few rows multiplies
  Way way_;
  std::vector<size_t> aligned_;
};

}  // namespace

std::shared_ptr<const void> load_gemm_cuda(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<GemmArgs>(parse_gemm_cuda(constants));
  size_t wanted = args->behind() + args->operands.size(), numbers = size_t{3} + args->map.m_rank + args->map.k_rank + args->map.rank + args->sizes;
  if (operands != wanted || sizes != numbers) fail(Code::format, "an implicit_gemm step has {} operands and {} sizes, its arguments {} and {}", operands, sizes, wanted, numbers);
  return args;
}

CudaLaunches gemm_cuda_launches(const Call& call, const CudaMachine& machine) {
  const auto& args = *static_cast<const GemmArgs*>(call.constants);
  check(args, call);
  return Launches(args, call, machine).run();
}

WantedChoices gemm_cuda_choices(std::span<const Call> calls, const CudaMachine& machine) {
  struct Part {
    std::string problem;
    std::vector<Choice> choices;
    bool floats;
  };
  auto parts_on = [&](int multiprocessors) {
    std::vector<Part> out;
    for (const Call& call : calls) {
      const auto& args = *static_cast<const GemmArgs*>(call.constants);
      check(args, call);
      const CudaMachine part{multiprocessors, machine.tiles};
      const Launches l(args, call, part);
      out.push_back({l.problem(), l.choices_of_tiles(), args.type == ir::DType::f32});
    }
    return out;
  };
  const std::vector<Part> parts = parts_on(machine.multiprocessors);
  if (std::any_of(parts.begin(), parts.end(), [](const Part& p) { return p.choices.empty(); })) return {};
  // One after another, each with the tile that is best for it.
  double least = 0;
  std::vector<Choice> best;
  for (const Part& p : parts) {
    least += p.choices[0].microseconds;
    best.push_back(p.choices[0]);
  }
  // Side by side, with tiles of one size.
  for (const Choice& c : parts[0].choices) {
    std::vector<Choice> same;
    int64_t blocks = 0, turns = 0;
    for (const Part& p : parts) {
      const auto found = std::find_if(p.choices.begin(), p.choices.end(), [&](const Choice& x) { return x.tile == c.tile && x.splits == 1; });
      if (found == p.choices.end()) break;
      same.push_back(*found);
      blocks += found->blocks;
      turns = std::max(turns, found->turns);
    }
    const double all = same.size() == parts.size() ? microseconds_of(large_tiles[c.tile], parts[0].floats, blocks, turns, machine.multiprocessors) : least;
    if (all < least) least = all, best = std::move(same);
  }
  // Each on its share of the machine, which may also share K.
  double shared = 0;
  const std::vector<Part> on_shares = parts_on(std::max(1, machine.multiprocessors / static_cast<int>(calls.size())));
  for (const Part& p : on_shares) {
    const bool alike = p.choices[0].tile == on_shares[0].choices[0].tile && p.choices[0].blocks == on_shares[0].choices[0].blocks;
    shared = alike ? std::max(shared, p.choices[0].microseconds) : least;
    if (!alike) break;
  }
  WantedChoices out;
  for (size_t k = 0; k < parts.size(); ++k) out[parts[k].problem] = shared < least ? on_shares[k].choices[0].text() : best[k].text();
  return out;
}

std::span<const RunKernel> implicit_gemm_cuda_kernels() {
  static constexpr RunKernel list[] = {{"implicit_gemm", load_gemm_cuda, resolved<gemm_cuda_launches>, run_launches, tunables<gemm_cuda_launches>}};
  return list;
}

}  // namespace ingot::kernels
