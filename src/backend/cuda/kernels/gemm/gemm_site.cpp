// What ingot's own kernels ask of a GEMM: A as a map, B along K or N, the sizes.
#include "backend/cuda/kernels/gemm/gemm_site.h"

#include <algorithm>

#include "backend/cuda/compile/element_text.h"
#include "backend/cuda/kernels/gemm/gemv/run/gemv_args.h"
#include "backend/cuda/kernels/gemm/im2col_2d/im2col_2d.h"
#include "backend/cuda/kernels/gemm/packed/run/packed_args.h"
#include "backend/cuda/kernels/gemm/skinny/run/skinny_args.h"

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

bool takes(ir::DType type, bool tf32) { return is_half(type) || (type == ir::DType::f32 && tf32); }
// Number of elements of A or B that are read at once.
int64_t together(ir::DType type) { return 16 / static_cast<int64_t>(ir::size_of(type)); }

bool is_int8(const Gemm& g) { return g.encoding->storage == ir::DType::i8 && is_scaled_by_column(*g.encoding); }
// The kernel for one row loads sixteen int8 at once.
bool reads_row(const Gemm& g) { return !g.encoding || (g.a.dims.back().is_constant() && g.a.dims.back().value() % 16 == 0); }

// True if all batches have the same B: they are rows of one GEMM, which the body sees as several axes.
bool has_one_b(const Gemm& g) {
  if (g.packed) return true;
  const StridedLayout& b = g.b[0];
  return std::all_of(b.strides.begin(), b.strides.begin() + static_cast<int64_t>(g.batch_rank), [](const Dim& s) { return is(s, 0); });
}
size_t row_rank(const Gemm& g) { return g.batch_rank + g.m_rank; }

// A matrix A written as a map, if its rows are laid out as the kernel reads them.
std::optional<ir::AffineMap> map_of_matrix(const Gemm& g) {
  const Dim& k = g.a.dims.back();
  const size_t last = g.a.dims.size() - 1;
  if (!is_contiguous_along(g.a, last, last - 1) || !k.is_constant() || k.value() == 0 || k.value() % together(g.type) != 0) return std::nullopt;
  ir::AffineMap map{g.a.dims, {}, std::nullopt};
  for (size_t axis = 0; axis <= last; ++axis) map.axes.push_back({0, {{static_cast<uint32_t>(axis), 1}}});
  return map;
}

// The map in the form of the kernel's constants; appends its numbers to `sizes`. nullopt if the kernel cannot follow it.
std::optional<kernels::GemmMap> arguments_of(const Gemm& g, const ir::AffineMap& map, Dims& sizes) {
  constexpr size_t max_rank = kernels::GemmMap::max_rank, together = kernels::gemm::tuning::max_map_indices;
  const size_t indices = map.dims.size();
  const size_t rows = row_rank(g);
  if (!has_one_b(g) || map.axes.size() > max_rank || rows > max_rank || indices - rows > max_rank) return std::nullopt;
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
  const bool vectors = is(stride, 1) && dims.back().value() % each == 0;
  return !vectors && columns % each == 0;
}

}  // namespace

bool in_eights(const Dim& d) { return d.is_constant() && d.value() > 0 && d.value() % 8 == 0; }

bool may_be_skinny(const Gemm& g) {
  const auto rows = rows_of(g).constant();
  return g.row_ends == nullptr && (!rows || (*rows > 1 && *rows <= kernels::gemm::gemv_tuning::max_skinny_rows)) && !g.map && !g.prologue && !g.encoding && is_half(g.type) &&
         in_eights(g.a.dims.back()) && has_one_b(g);
}

bool is_skinny(const Gemm& g) { return rows_of(g).is_constant() && may_be_skinny(g); }

std::optional<std::vector<int64_t>> GemmSite::map_sizes() const {
  const size_t indices = size_t{map.m_rank} + map.k_rank;
  std::vector<int64_t> sizes;
  for (const Dim& d : numbers) {
    if (!d.is_constant() && sizes.size() >= indices) return std::nullopt;
    sizes.push_back(d.is_constant() ? d.value() : -1);
  }
  return sizes;
}

GemmSiteAnswer gemm_site(const Gemm& g, const FusedBody& body, const std::vector<StridedLayout>& layouts, bool hopper, uint16_t tiles, std::optional<int64_t> usual_rows) {
  auto refusal = [](Obstacle obstacle, std::string reason) { return GemmSiteAnswer{nullptr, obstacle, std::move(reason)}; };
  const Dim& n = body.row.back();
  const auto from = g.map ? g.map : map_of_matrix(g);
  auto out = std::make_shared<GemmSite>(GemmSite{g, body, layouts, hopper, tiles});
  auto map = from ? arguments_of(g, *from, out->numbers) : std::nullopt;
  if (!takes(g.type, true)) return refusal(Obstacle::types, std::string(gemm_types));
  const bool floats = g.type == ir::DType::f32;
  if (!map) return refusal(Obstacle::a, "the kernel cannot follow A's map or rows");
  if (body.row.size() != 1 || !in_eights(n)) return refusal(Obstacle::types, "the result's columns are not a multiple of 8");
  out->map = std::move(*map);
  out->extents = from->dims;
  if (g.map && tiles == all_tiles && is_better_in_rows(g, out->map) && im2col_2d_of(*out).empty()) {
    return refusal(Obstacle::a, "A is read once and in runs of less than 16 bytes: a copy of it as rows costs less");
  }
  const StridedLayout& b = g.b[0];
  const bool experts = g.row_ends != nullptr;
  const size_t outer = g.batch_rank + (experts ? 1 : 0), inner = outer + 1;
  const bool along_k = out->b_along_k = g.packed || (!is_contiguous_along(b, inner, outer) && is_contiguous_along(b, outer, inner));
  if (!along_k && !is_contiguous_along(b, inner, outer)) return refusal(Obstacle::b, "B is contiguous along no axis");
  const bool is_read_as_int8 = !floats && along_k && g.b.size() == 1;
  if (g.encoding && !g.packed && !(is_read_as_int8 && is_int8(g)))
    return refusal(Obstacle::b, "encoded weights must be int8 with a scale for each column, as one matrix along K");
  const bool one_row = out->one_row = !experts && has_one_row(g) && along_k && (g.packed || reads_row(g)) && !floats;
  const bool skinny = out->skinny = is_skinny(g) && along_k && g.b.size() <= kernels::gemm::tuning::max_parts_of_b;
  out->may_be_skinny = skinny || (may_be_skinny(g) && along_k && usual_rows.value_or(1) <= kernels::gemm::gemv_tuning::max_skinny_rows);
  const bool few_parts = along_k && !floats && !g.map && g.b.size() <= kernels::gemm::gemv_tuning::max_parts_of_b;
  if (g.b.size() > 1 && !skinny && !few_parts) return refusal(Obstacle::b, "parts of B are read only along K, and of more than eight rows up to four");
  const bool in_halves = !floats && (!g.encoding || g.packed);  // as it is multiplied
  const bool gates_rows = out->gates_rows = (hopper || experts) && along_k && !g.map && in_halves && row_rank(g) == 1;
  if (!is_of_elements(body) || (g.gated && !one_row && !skinny && !gates_rows)) return refusal(Obstacle::body, "the body does not compute single elements");
  if (g.packed && g.gated && n.value() % kernels::packed_columns != 0) return refusal(Obstacle::body, "half of the columns is not a multiple of 16");
  // Only printing the prologue shows whether a block can compute it.
  if (g.prologue && one_row) out->prologue = emit_prologue(*g.prologue->body, g.prologue->operands);
  if (g.prologue && !out->prologue) return refusal(Obstacle::a, "a block cannot compute the prologue's row");
  return {std::move(out), {}, {}};
}

namespace {

std::optional<Refusal> experts_refusal(const Gemm& g) {
  constexpr std::string_view name = "gemm_ragged";
  if (g.encoding || g.scale != nullptr || g.prologue || g.map || g.b.size() > 1)
    return Refusal{name, Obstacle::types, "matrices of experts are of A's type, and A is a matrix in memory"};
  const Dim& k = g.a.dims.back();
  if (!k.is_constant() || k.value() == 0 || k.value() % together(g.type) != 0) return Refusal{name, Obstacle::types, "rows are not a multiple of 16 bytes"};
  if (g.gated && (g.type == ir::DType::f32 || g.b[0].dims.back().value() % 16 != 0))
    return Refusal{name, Obstacle::body, "a gated epilogue is for halves of columns in eights, of half precision"};
  return std::nullopt;
}

}  // namespace

// The obstacle of a sketch. The sizes that a prologue, parts of B and a gated epilogue need must be known.
std::optional<Refusal> sketch_refusal(const Gemm& g, bool tf32, bool hopper) {
  constexpr std::string_view name = "gemm";  // all implementations
  if (!takes(g.type, tf32)) return Refusal{name, Obstacle::types, std::string(gemm_types)};
  const bool floats = g.type == ir::DType::f32;
  const Dim& k = g.a.dims.back();
  if (!in_eights(g.b[0].dims.back())) return Refusal{name, Obstacle::types, "the result's columns are not a multiple of 8"};
  if (g.encoding) {
    if (floats || !is_int8(g) || g.b.size() > 1) return Refusal{name, Obstacle::b, "encoded weights must be int8 with a scale for each column, as one matrix"};
    if (!in_eights(k) || !in_eights(g.b[0].dims[1])) return Refusal{name, Obstacle::types, "sizes of an encoded weight must be multiples of 8"};
    const Dim rows = rows_of(g);
    if (rows.is_constant() && rows.value() > kernels::gemm::tuning::max_encoded_rows) return Refusal{name, Obstacle::cost, "for so many rows it costs less to decode B"};
    if ((g.prologue || g.gated) && !reads_row(g)) return Refusal{name, Obstacle::a, "K must be a multiple of 16 for one row"};
  }
  if (g.row_ends != nullptr) return experts_refusal(g);
  const bool skinny = is_skinny(g), one_row = has_one_row(g) && !floats;
  if (g.prologue && !one_row) return Refusal{name, Obstacle::a, "only for one row of half precision"};
  if (g.b.size() > 1 && (floats || g.map)) return Refusal{name, Obstacle::b, "parts of B are read only of half precision, where A is a matrix"};
  const bool gates_rows = hopper && !g.encoding && !g.map && in_eights(k), gates = !floats && (has_one_row(g) || skinny || gates_rows);
  if (g.gated && !gates) return Refusal{name, Obstacle::body, "a gated epilogue of many rows is for half precision on sm_90"};
  if (g.prologue && !(in_eights(k) && k.value() <= kernels::gemm::tuning::max_prologue_row)) return Refusal{name, Obstacle::a, "the row is too long, or of unknown length"};
  const bool columns = std::all_of(g.b.begin(), g.b.end(), [](const StridedLayout& b) { return in_eights(b.dims[1]); });
  const size_t max_parts = skinny ? kernels::gemm::tuning::max_parts_of_b : kernels::gemm::gemv_tuning::max_parts_of_b;
  if (g.b.size() > 1 && !one_row && !has_large_parts_of_b(g)) return Refusal{name, Obstacle::b, "parts of less than 8 MiB are faster as one matrix"};
  if (g.b.size() > 1 && !(in_eights(k) && g.b.size() <= max_parts && columns)) return Refusal{name, Obstacle::b, "too many parts, or sizes that are not multiples of 8"};
  if (g.gated && !(g.b[0].dims[1].is_constant() && g.b[0].dims[1].value() % 16 == 0)) return Refusal{name, Obstacle::body, "half of the columns is not a multiple of 8"};
  return std::nullopt;
}

std::optional<Refusal> packed_refusal(const Gemm& g) {
  constexpr std::string_view name = "gemm_packed";
  const Dim &k = g.a.dims.back(), &n = g.b[0].dims.back();
  if (!takes(g.type, true)) return Refusal{name, Obstacle::types, "for float16, bfloat16 and float32"};
  if (!in_eights(k) || !in_eights(n)) return Refusal{name, Obstacle::types, "sizes of a packed weight must be multiples of 8"};
  if ((g.prologue || g.gated) && (g.type == ir::DType::f32 || !has_one_row(g))) return Refusal{name, Obstacle::a, "only for one row of half precision"};
  if (g.prologue && k.value() > kernels::gemm::tuning::max_prologue_row) return Refusal{name, Obstacle::a, "the row is too long"};
  if (g.gated && n.value() % (2 * kernels::packed_columns) != 0) return Refusal{name, Obstacle::body, "half of the columns is not a multiple of 16"};
  return std::nullopt;
}

bool takes_gemms_of(ir::DType type, const Gemm& g, const Settings& settings) { return takes(type, g.convolution ? settings.tf32_convolutions : settings.tf32); }

double peak_for(const Gemm& g, const Settings& settings) {
  const Machine& m = settings.machine;
  if (ir::size_of(g.type) == 2) return m.bf16;
  return g.type == ir::DType::f32 && takes_gemms_of(g.type, g, settings) ? std::max(m.f32, m.bf16 / 2) : m.f32;
}

namespace {

// How much longer a GEMM's work takes than on an H200.
double times_of_h200(const Gemm& g, const Settings& settings) {
  const Machine& h200 = machine_named("cuda:sm_90");
  return (ir::size_of(g.type) == 2 ? h200.bf16 : h200.bf16 / 2) / peak_for(g, settings);
}

double bytes_of_b(const Site& site, const Gemm& g) {
  if (g.packed) return static_cast<double>(g.b[0].dims[0].value());
  const ir::DType type = g.encoding ? g.encoding->storage : g.type;
  double bytes = 0;
  for (const StridedLayout& b : g.b) {
    double count = 1;
    for (size_t d = 0; d < b.dims.size(); ++d) {
      if (!is_placed(b) || !is(b.strides[d], 0)) count *= static_cast<double>(site.usual(b.dims[d]).value_or(1));
    }
    bytes += g.encoding ? count * g.encoding->needed / 8 : count * static_cast<double>(ir::size_of(type));
  }
  return bytes;
}

}  // namespace

kernels::GemmSizes gemm_sizes(const Site& site, const Gemm& g, const Target& target, const Settings& settings) {
  using kernels::gemm::tuning::max_batch_rows;
  ir::Dim rows = 1, k = g.a.dims.back();
  if (g.map) {
    k = 1;
    for (size_t i = 0; i < g.map->dims.size(); ++i) (i < g.batch_rank + g.m_rank ? rows : k) *= g.map->dims[i];
  } else {
    rows = rows_of(g);
  }
  size_t batches = 0;
  for (size_t d = 0; d < g.batch_rank; ++d) batches += !is(g.a.dims[d], 1);
  kernels::GemmSizes out;
  out.m = rows.is_constant() ? rows.value() : std::max<int64_t>(2, site.usual(rows).value_or(2));
  out.n = (g.packed ? site.body->row.back() : g.b[0].dims.back()).constant().value_or(1);
  out.k = site.usual(k).value_or(int64_t{1} << 40);
  out.floats = g.type == ir::DType::f32;
  out.slower = times_of_h200(g, settings);
  out.reading = bytes_of_b(site, g) / settings.machine.memory;
  out.through_map = g.map.has_value();
  if (g.row_ends != nullptr) out.experts = g.b[0].dims[0].constant().value_or(1);
  const StridedLayout& b = g.b[0];
  const size_t outer = g.batch_rank + (g.row_ends != nullptr ? 1 : 0);
  const bool along_k = g.packed || !is_placed(b) || (!is_contiguous_along(b, outer + 1, outer) && is_contiguous_along(b, outer, outer + 1));
  out.has_tiles = target.architecture == 90 && kernels::has_tiles_of(g.type, along_k);
  out.batches = !g.map && batches > 0 && (batches > 1 || g.a.dims[g.batch_rank].constant().value_or(max_batch_rows) < max_batch_rows);
  return out;
}

}  // namespace ingot::backend::cuda
