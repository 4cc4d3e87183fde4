// Offers GEMMs by ingot's own kernel: A through a map, any epilogue; for one row also a prologue; for one or a few rows piecewise B and a gated epilogue, which on Hopper any
// number of rows may have.
#include <algorithm>
#include <array>
#include <optional>

#include "backend/cuda/compile/element_text.h"
#include "backend/cuda/compile/matrix_text.h"
#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/gemm/epilogue_text.h"
#include "backend/cuda/kernels/gemm/gemm.h"
#include "backend/cuda/kernels/gemm/gemm_code.h"
#include "backend/cuda/kernels/gemm/gemm_text.h"

namespace ingot::backend::cuda {

using ir::Dim;
using ir::Dims;

namespace {

// True if the map certainly stays inside this axis of A.
bool stays_inside(const ir::AffineMap& map, const StridedLayout& a, size_t axis) {
  const ir::AffineMap::Axis& along = map.axes[axis];
  if (!(along.offset == Dim(0)) || along.terms.size() > 1) return false;
  if (along.terms.empty()) return true;
  const Dim &extent = map.dims[along.terms[0].axis], &size = a.dims[axis];
  if (along.terms[0].coefficient == 1 && extent == size) return true;
  return extent.is_constant() && size.is_constant() && (extent.value() - 1) * along.terms[0].coefficient < size.value();
}

bool in_eights(const Dim& d) { return d.is_constant() && d.value() > 0 && d.value() % 8 == 0; }

constexpr std::string_view other_types = "for float16 and bfloat16, and for float32 where TF32 is allowed";
bool takes(ir::DType type, bool tf32) { return is_half(type) || (type == ir::DType::f32 && tf32); }
bool allows_tf32(const Gemm& g, const Settings& settings) { return g.convolution ? settings.tf32_convolutions : settings.tf32; }
// Number of elements of A or B that are read at once.
int64_t together(ir::DType type) { return 16 / static_cast<int64_t>(ir::size_of(type)); }

bool is_int8(const Gemm& g) { return g.encoding->storage == ir::DType::i8 && is_scaled_by_column(*g.encoding); }
// The kernel for one row loads sixteen int8 at once.
bool reads_row(const Gemm& g) { return !g.encoding || (g.a.dims.back().is_constant() && g.a.dims.back().value() % 16 == 0); }
// Up to this many rows, this kernel's lower speed costs less than decoding B for the library (an estimate, not measured).
constexpr int64_t most_encoded_rows = 1024;

// True if all batches have the same B: they are rows of one GEMM, which the body sees as several axes.
bool has_one_b(const Gemm& g) {
  const StridedLayout& b = g.b[0];
  return std::all_of(b.strides.begin(), b.strides.begin() + static_cast<int64_t>(g.batch_rank), [](const Dim& s) { return is(s, 0); });
}
size_t row_rank(const Gemm& g) { return g.batch_rank + g.m_rank; }
bool is_along_k(const Gemm& g) { return is(g.b[0].strides[g.batch_rank], 1); }

// A matrix A written as a map, if its rows are laid out as the kernel reads them.
std::optional<ir::AffineMap> map_of_matrix(const Gemm& g) {
  const Dim& k = g.a.dims.back();
  const size_t last = g.a.dims.size() - 1;
  if (!lies(g.a, last, last - 1) || !k.is_constant() || k.value() == 0 || k.value() % together(g.type) != 0) return std::nullopt;
  ir::AffineMap map{g.a.dims, {}, std::nullopt};
  for (size_t axis = 0; axis <= last; ++axis) map.axes.push_back({0, {{static_cast<uint32_t>(axis), 1}}});
  return map;
}

// The map in the form of the kernel's constants; appends its numbers to `sizes`. nullopt if the kernel cannot follow it.
std::optional<kernels::GemmMap> arguments_of(const Gemm& g, const ir::AffineMap& map, Dims& sizes) {
  constexpr size_t most = kernels::GemmMap::max_rank, together = 4;
  const size_t indices = map.dims.size();
  const size_t rows = row_rank(g);
  if (!has_one_b(g) || map.axes.size() > most || rows > most || indices - rows > most) return std::nullopt;
  size_t of_m = 0, of_k = 0, guards = 0;
  for (size_t i = 0; i < indices; ++i) {
    if (!is(map.dims[i], 1)) ++(i < rows ? of_m : of_k);
  }
  for (size_t j = 0; j < map.axes.size(); ++j) guards += !stays_inside(map, g.a, j);
  auto steps = map_steps(map, sizes);
  // The kernels for volumes check three axes that the map may leave; the others check two.
  const bool volume = rows > 3 || indices - rows > 3;
  if (of_m > together || of_k > together || guards > (volume ? 3 : 2) || !steps) return std::nullopt;
  return kernels::GemmMap{static_cast<uint8_t>(map.axes.size()), static_cast<uint8_t>(rows), static_cast<uint8_t>(indices - rows), std::move(*steps)};
}

// True if a copy of A as a matrix costs less than reading it through the map: the map reads each element once, and one by one; from the copy the kernel reads
// 16 bytes at a time.
bool is_better_in_rows(const Gemm& g, const kernels::GemmMap& map) {
  const Dims& dims = g.map->dims;
  auto count = [](const Dims& d) {
    Dim n = 1;
    for (const Dim& x : d) n *= x;
    return n;
  };
  const Dim all = count(dims);
  if (!all.is_constant() || !(all == count(g.a.dims)) || !dims.back().is_constant()) return false;
  int64_t columns = 1;
  for (size_t i = row_rank(g); i < dims.size(); ++i) columns *= dims[i].constant().value_or(0);
  Dim stride = 0;
  for (size_t j = 0; j < g.a.dims.size(); ++j) stride += Dim(map.steps[j * dims.size() + dims.size() - 1]) * g.a.strides[j];
  const int64_t each = together(g.type);
  const bool pieces = is(stride, 1) && dims.back().value() % each == 0;
  return !pieces && columns % each == 0;
}

// The map's sizes, -1 for one that is not known. nullopt if an offset is not known.
std::optional<std::vector<int64_t>> sizes_of(const kernels::GemmMap& map, const Dims& numbers) {
  const size_t indices = size_t{map.m_rank} + map.k_rank;
  std::vector<int64_t> sizes;
  for (const Dim& d : numbers) {
    if (!d.is_constant() && sizes.size() >= indices) return std::nullopt;
    sizes.push_back(d.is_constant() ? d.value() : -1);
  }
  return sizes;
}

// Convolutions of volumes with few channels and stride 1 have one kernel, if A's channels are neighbours or copied one by one, and up to this many columns, which
// fill half of a tile (an estimate from counted bytes; docs/performance-notes/convolutions_cuda.md, 0073). With 0 they have none.
constexpr int64_t max_im2col_3d_columns = 32;

std::vector<kernels::Im2col3d> im2col_3d_of(const Gemm& g, const kernels::GemmMap& map, const Dims& numbers, int64_t columns, bool large) {
  const auto sizes = sizes_of(map, numbers);
  auto walk = sizes ? kernels::im2col_3d_axes(map, *sizes) : std::nullopt;
  if (!walk) return {};
  kernels::Im2col3d s = walk->numbers;
  s.size = static_cast<int>(ir::size_of(g.type));
  s.wide = columns > 16 ? 2 : 1;
  auto extent = [&](int index) { return index < 0 ? int64_t{1} : (*sizes)[static_cast<size_t>(index)]; };
  const int most_shared = large ? kernels::im2col_3d_shared : 96 << 10;  // every GPU has as much
  spread(s, std::array{extent(walk->image), extent(walk->place[0]), extent(walk->place[1]), extent(walk->place[2])}, columns, most_shared);
  const bool neighbours = walk->channel >= 0 && is(g.a.strides[static_cast<size_t>(walk->channel)], 1);
  if (columns > max_im2col_3d_columns || s.shared() > most_shared || !is_possible(s) || !(neighbours || s.narrow())) return {};
  return {s};
}

// Convolutions of few channels have a kernel for each layout of A; returns the layouts that A may have.
std::vector<kernels::Im2col2d> im2col_2d_of(const Gemm& g, const kernels::GemmMap& map, const Dims& numbers, int64_t columns) {
  const auto sizes = sizes_of(map, numbers);
  auto walk = sizes ? kernels::im2col_2d_axes(map, *sizes) : std::nullopt;
  if (!walk) return {};
  auto may_be = [&](int axis, int64_t stride) {
    const Dim& s = g.a.strides[static_cast<size_t>(axis)];
    return !s.is_constant() || s.value() == stride;
  };
  std::vector<kernels::Im2col2d> out;
  auto add = [&](int last) {
    kernels::Im2col2d s = walk->numbers;
    s.last = last;
    s.size = static_cast<int>(ir::size_of(g.type));
    s.wide = static_cast<int>(std::min<int64_t>(4, (columns + 31) / 32));
    if (is_possible(s)) out.push_back(s);
  };
  if (may_be(walk->w, 1)) add(0);
  if (walk->c >= 0 && may_be(walk->c, 1) && may_be(walk->w, walk->numbers.channels)) add(1);
  return out;
}

}  // namespace

static_assert(all_tiles == kernels::GemmArgs::all_tiles);

bool is_skinny(const Gemm& g) {
  const auto rows = rows_of(g).constant();
  return rows && *rows > 1 && *rows <= kernels::max_skinny_rows && !g.map && !g.prologue && !g.encoding && is_half(g.type) && in_eights(g.a.dims.back()) && has_one_b(g);
}

GemmAnswer implicit_gemm(const Gemm& g, const FusedBody& body, const std::vector<StridedLayout>& layouts, bool large, uint16_t tiles) {
  const Dim& n = body.row.back();
  const auto from = g.map ? g.map : map_of_matrix(g);
  Dims numbers;
  auto map = from ? arguments_of(g, *from, numbers) : std::nullopt;
  if (!takes(g.type, true)) return refusal(Obstacle::types, std::string(other_types));
  const bool floats = g.type == ir::DType::f32;
  if (!map) return refusal(Obstacle::a, "the kernel cannot follow A's map or rows");
  if (body.row.size() != 1 || !in_eights(n)) return refusal(Obstacle::types, "the result's columns are not a multiple of 8");
  if (g.map && tiles == all_tiles && is_better_in_rows(g, *map) && im2col_2d_of(g, *map, numbers, n.value()).empty()) {
    return refusal(Obstacle::a, "A is read once and in runs of less than 16 bytes: a copy of it as rows costs less");
  }
  const StridedLayout& b = g.b[0];
  const size_t inner = g.batch_rank + 1, outer = g.batch_rank;
  const bool along_k = !lies(b, inner, outer) && lies(b, outer, inner);
  if (!along_k && !lies(b, inner, outer)) return refusal(Obstacle::b, "B is contiguous along no axis");
  if (g.encoding && (floats || !(is_int8(g) && along_k && g.b.size() == 1)))
    return refusal(Obstacle::b, "encoded weights must be int8 with a scale for each column, as one matrix along K");
  const bool one_row = has_one_row(g) && along_k && reads_row(g) && !floats;
  const bool few_rows = is_skinny(g) && along_k && (g.b.size() == 1 || (!g.gated && g.b.size() <= kernels::max_skinny_pieces));
  if (g.b.size() > 1 && !few_rows && !(one_row && g.b.size() <= kernels::max_gemv_pieces)) return refusal(Obstacle::b, "pieces of B are read only for one or a few rows, along K");
  const bool gates_rows = large && along_k && !g.map && !g.encoding && !floats && g.b.size() == 1 && row_rank(g) == 1;
  if (!is_of_elements(body) || (g.gated && !one_row && !few_rows && !gates_rows)) return refusal(Obstacle::body, "the body does not compute single elements");
  std::optional<EmittedPrologue> row;  // only printing it shows whether a block can compute it
  if (g.prologue && one_row) row = emit_prologue(*g.prologue->body, g.prologue->operands);
  if (g.prologue && !row) return refusal(Obstacle::a, "a block cannot compute the prologue's row");
  return {std::nullopt, {}, [=, &g, &body, &layouts, dims = from->dims, map = *map] {
            std::vector<kernels::Im2col2d> patches;
            std::vector<kernels::Im2col3d> bricks;
            if (tiles == all_tiles && !g.encoding) patches = im2col_2d_of(g, map, numbers, n.value());
            if (tiles == all_tiles && !g.encoding) bricks = im2col_3d_of(g, map, numbers, n.value(), large);
            EmittedGemm code = emit_gemm_text({g.type, g.encoding ? g.encoding->storage : g.type, map, along_k, g.constant, large && !g.encoding, tiles, std::move(patches),
                                               std::move(bricks), g.b.size(), g.gated, row ? &*row : nullptr, few_rows},
                                              body, layouts);
            EmittedStep step{"implicit_gemm", std::move(code.arguments), {1, n, 1}};
            for (size_t i = 0; i < dims.size(); ++i) step.sizes[i < row_rank(g) ? 0 : 2] *= dims[i];
            step.sizes.insert(step.sizes.end(), numbers.begin(), numbers.end());
            step.sizes.insert(step.sizes.end(), code.sizes.begin(), code.sizes.end());
            step.code.push_back({std::move(code.name), std::move(code.text), std::move(code.kernels), gemm_libraries(g.type, along_k)});
            return step;
          }};
}

namespace {

// The obstacle of a sketch. The sizes that a prologue, pieces of B and a gated epilogue need must be known.
std::optional<Refusal> obstacle(const Gemm& g, bool tf32, bool large) {
  constexpr std::string_view name = "implicit_gemm";
  if (!takes(g.type, tf32)) return Refusal{name, Obstacle::types, std::string(other_types)};
  const bool floats = g.type == ir::DType::f32;
  const Dim& k = g.a.dims.back();
  if (!in_eights(g.b[0].dims.back())) return Refusal{name, Obstacle::types, "the result's columns are not a multiple of 8"};
  if (g.encoding) {
    if (floats || !is_int8(g) || g.b.size() > 1) return Refusal{name, Obstacle::b, "encoded weights must be int8 with a scale for each column, as one matrix"};
    if (!in_eights(k) || !in_eights(g.b[0].dims[1])) return Refusal{name, Obstacle::types, "sizes of an encoded weight must be multiples of 8"};
    const Dim rows = rows_of(g);
    if (rows.is_constant() && rows.value() > most_encoded_rows) return Refusal{name, Obstacle::cost, "for so many rows it costs less to decode B"};
    if ((g.prologue || g.gated) && !reads_row(g)) return Refusal{name, Obstacle::a, "K must be a multiple of 16 for one row"};
  }
  const bool few_rows = is_skinny(g), one_row = has_one_row(g) && !floats;
  if ((g.prologue && !one_row) || (g.b.size() > 1 && !one_row && !few_rows)) return Refusal{name, Obstacle::a, "only for one row of half precision"};
  if (g.gated && (floats || (!has_one_row(g) && !few_rows && (!large || g.encoding || g.map || !in_eights(k)))))
    return Refusal{name, Obstacle::body, "a gated epilogue of many rows is for half precision on sm_90"};
  if (g.prologue && !(in_eights(k) && k.value() <= kernels::max_prologue_k)) return Refusal{name, Obstacle::a, "the row is too long, or of unknown length"};
  const bool columns = std::all_of(g.b.begin(), g.b.end(), [](const StridedLayout& b) { return in_eights(b.dims[1]); });
  const size_t most_pieces = few_rows ? kernels::max_skinny_pieces : kernels::max_gemv_pieces;
  if (g.b.size() > 1 && few_rows && (g.gated || !are_large_pieces(g))) return Refusal{name, Obstacle::b, "pieces of less than 8 MiB are faster as one matrix"};
  if (g.b.size() > 1 && !(in_eights(k) && g.b.size() <= most_pieces && columns)) return Refusal{name, Obstacle::b, "too many pieces, or sizes that are not multiples of 8"};
  if (g.gated && !(g.b[0].dims[1].is_constant() && g.b[0].dims[1].value() % 16 == 0)) return Refusal{name, Obstacle::body, "half of the columns is not a multiple of 8"};
  return std::nullopt;
}

// True if Hopper's large tiles can multiply: floats only along K, more than one row.
bool has_large_tiles(const Gemm& g, const Target& target) { return target.architecture == 90 && !(g.type == ir::DType::f32 && (has_one_row(g) || !is_along_k(g))); }

// The cost model. One row of halves times a B along K is as fast as reading B. Hopper's large tiles are as fast as the library; for floats they exist only along
// K, and for one row they waste the others. A few rows of halves cost little more than reading B, which the library does at two thirds of the bandwidth. All other
// kernels have half the library's rate. Floats of up to 512 terms are faster than the library's: on an H200, 1 x 1 convolutions of a ResNet-50 by 1.05 to 2.9 times
// (docs/performance-notes/gemms_cuda.md, 0065). Halves of many rows whose columns fill tiles of 160, but not of 128, are faster too: 8192 x 320 by 1.1 to 2 times. Batches of few rows, or
// on several axes, of which the library is called for one alone, are rows of one GEMM here.
double cost_of(const Gemm& g, const Target& target) {
  const bool floats = g.type == ir::DType::f32, along_k = is_along_k(g);
  if (has_one_row(g) && along_k && !floats) return 0;
  const bool large = has_large_tiles(g, target);
  ir::Dim k = g.map ? ir::Dim(1) : g.a.dims.back();
  for (size_t i = g.batch_rank + g.m_rank; g.map && i < g.map->dims.size(); ++i) k *= g.map->dims[i];
  const double steps = static_cast<double>(k.constant().value_or(int64_t{1} << 40));
  constexpr double few = 512, ahead = 0.9;
  constexpr int64_t many = 4096;
  const int64_t columns = g.b[0].dims.back().constant().value_or(1);
  const bool fills = !floats && !g.map && g.b.size() == 1 && rows_of(g).constant().value_or(0) >= many && columns % 160 == 0 && columns % 128 != 0;
  size_t batches = 0;
  for (size_t d = 0; d < g.batch_rank; ++d) batches += !is(g.a.dims[d], 1);
  constexpr int64_t few_rows = 128;
  if (is_skinny(g) && along_k) return ahead * steps;
  if (!g.map && batches > 0 && (batches > 1 || g.a.dims[g.batch_rank].constant().value_or(few_rows) < few_rows)) return ahead * steps;
  return large ? (fills || (floats && steps <= few) ? ahead * steps : steps) : 2 * steps;
}

}  // namespace

void implicit_gemm_offers(const Site& site, const Target& target, const Settings& settings, Offers& out) {
  constexpr std::string_view name = "implicit_gemm";
  const auto g = gemm_of(site);
  if (g == nullptr) return;
  if (g->row_ends != nullptr) return out.refusals.push_back({name, Obstacle::b, "B is one for all rows"});
  if (target.architecture < 80) return out.refusals.push_back({name, Obstacle::types, "these matrix instructions need sm_80"});
  if (!is_placed(g->a)) {
    if (auto refused = obstacle(*g, allows_tf32(*g, settings), target.architecture == 90)) {
      out.refusals.push_back(std::move(*refused));
    } else {
      const Wish whole_vectors{Role::a, Wish::Axis::k, Wish::Kind::multiple, together(g->type)};
      Offer& offer = out.offers.emplace_back(Offer{.implementation = name, .wishes = {channels_innermost, even_rows, whole_vectors}});
      // The large tiles read floats of B only along K.
      if (target.architecture == 90 && g->type == ir::DType::f32) offer.wishes.push_back({Role::b, Wish::Axis::k});
    }
    return;
  }
  if (!takes(g->type, allows_tf32(*g, settings))) return out.refusals.push_back({name, Obstacle::types, std::string(other_types)});
  // Refuses if the library takes the whole body and is not slower. With `rivals` the library must be faster by more than is_near: otherwise timing decides.
  const double cost = cost_of(*g, target);
  const bool beaten =
      std::any_of(out.offers.begin(), out.offers.end(), [&](const Offer& o) { return o.takes_body && o.cost <= cost && !(settings.rivals && is_near(cost, o.cost)); });
  if (beaten) return out.refusals.push_back({name, Obstacle::cost, "not faster than the library, which takes the whole body"});
  const auto layouts = std::make_shared<const std::vector<StridedLayout>>(site.body_layouts());
  GemmAnswer answer = implicit_gemm(*g, *site.body, *layouts, target.architecture == 90);
  if (answer.obstacle) return out.refusals.push_back({name, *answer.obstacle, answer.reason});
  auto emit = [whole = std::move(answer.emit), g, layouts, &site, &settings] { return split_code(whole(), site, settings.rivals); };
  // Elsewhere a copy and the library are faster than this kernel.
  const double padding = has_large_tiles(*g, target) ? 0 : padding_of(*g, rows_of_a_tile);  // the large tiles hold rows of several batches
  Offer& offer =
      out.offers.emplace_back(Offer{.implementation = name, .cost = cost, .padding = padding, .wishes = {channels_innermost, even_rows, own_memory}, .emit = std::move(emit)});
  // Only the large tiles of Hopper can be timed.
  if (target.architecture == 90 && !g->encoding && cost > 0 && !is_skinny(*g) && (is_half(g->type) || is_along_k(*g))) offer.tunables = {"tile and parts of K"};
}

}  // namespace ingot::backend::cuda
