// Chooses the large tile and the number of blocks that share K, by a model in microseconds fitted to measurements on an H200.
#include "backend/cuda/kernels/gemm/tiles/run/tiles.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>

#include "backend/cuda/kernels/gemm/run/implementation.h"
#include "backend/cuda/kernels/gemm/run/through_map.h"
#include "backend/cuda/kernels/gemm/run/tuning.h"
#include "backend/cuda/kernels/gemm/tiles/run/tile_maps.h"
#include "backend/cuda/kernels/gemm/tiles/run/tiles_args.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

using namespace gemm::tuning;

// The large tile and the number of blocks that share K.
struct Choice {
  size_t tile = 0;
  int64_t splits = 1;
  double microseconds = 0;
  int stages = 0;
  int64_t blocks = 0, turns = 0;  // steps along K of each block
  std::string text() const {
    const LargeTile& t = large_tiles[tile];
    return fmt::format("gemm_tiles {} x {}, {} stages, {} in turn, K by {}", t.rows, t.columns, stages, t.ping_pong, splits);
  }
};
// The time of this many blocks of a tile, each of which takes so many steps along K.
double microseconds_of(const LargeTile& t, bool floats, int64_t blocks, int64_t turns, int multiprocessors) {
  const gemm::tiles_tuning::Microseconds& of = floats ? t.times.floats : t.times.halves;
  const int64_t rounds = divided_up(blocks, multiprocessors);
  const double work = static_cast<double>(turns) * (rounds == 1 ? of.step_alone : of.step), n = static_cast<double>(rounds);
  // Alternating groups: one multiplies while others run the epilogue.
  return launch_microseconds + (t.ping_pong > 0 ? n * std::max(work, (work + of.epilogue) / t.ping_pong) + of.epilogue : n * (work + of.epilogue));
}

// The most blocks that share K.
int64_t splits_of(const LargeTile& t, bool gated, int64_t turns) { return t.ping_pong > 0 || gated ? 1 : std::min(max_splits, std::max<int64_t>(1, turns / min_turns_of_split)); }
double microseconds_of(const LargeTile& t, bool floats, bool gated, int64_t m, int64_t n, int64_t turns, int64_t splits, int multiprocessors) {
  const double shared = splits == 1 ? 0 : finish_microseconds + static_cast<double>(m) * static_cast<double>(n * splits) * 8 / parts_per_microsecond;
  return shared + microseconds_of(t, floats, t.grid(m, n, gated) * splits, divided_up(turns, splits), multiprocessors);
}

// All choices, the cheapest first.
std::vector<Choice> choices_of(const GemmExtents& p, int64_t turns, int multiprocessors, const GemmArgs& gemm, const TilesArgs& args) {
  const bool floats = gemm.type == ir::DType::f32;
  const int boxed = args.boxed_bytes(gemm.type);
  std::vector<Choice> out;
  for (size_t k = 0; k < std::size(large_tiles); ++k) {
    const LargeTile& t = large_tiles[k];
    if ((args.tiles >> k & 1) == 0 || t.shared(args.column_bytes, boxed) > large_tile_shared || !t.takes(p.n, gemm.gated, floats)) continue;
    const int64_t blocks = t.grid(p.m, p.n, gemm.gated);
    for (int64_t splits = 1; splits <= splits_of(t, gemm.gated, turns); ++splits) {
      out.push_back(
          {k, splits, microseconds_of(t, floats, gemm.gated, p.m, p.n, turns, splits, multiprocessors), t.stages_with(boxed), blocks * splits, divided_up(turns, splits)});
    }
  }
  if (out.empty()) out.emplace_back();
  std::stable_sort(out.begin(), out.end(), [](const Choice& x, const Choice& y) { return x.microseconds < y.microseconds; });
  return out;
}

// The tensor maps of the epilogue's operands that are copied in boxes. False if the copying unit cannot describe one.
bool add_boxes(const GemmCall& c, const TilesArgs& args, std::vector<CudaTiles>& out) {
  auto add = [&](uint8_t k, size_t at) {
    if (k == TilesArgs::none) return true;
    const TensorRef& x = c.numbers.operands[k];
    const auto size = static_cast<int64_t>(ir::size_of(c.args.type));
    int axis = c.args.row_rank - 1;  // the stride of one row may be anything
    while (axis > 0 && x.dims[axis] == 1) --axis;
    const int64_t step = (c.size.m == 1 ? c.size.n : x.strides[axis]) * size;
    if (std::accumulate(x.dims, x.dims + c.args.row_rank, int64_t{1}, std::multiplies()) != c.size.m || step <= 0 || step % 16 != 0 || step >= int64_t{1} << 39) return false;
    CudaTiles t;
    t.at = at;
    t.index = c.first + k;
    t.dtype = c.args.type;
    t.dims = {static_cast<uint64_t>(c.size.n), 1, static_cast<uint64_t>(c.size.m)};
    t.strides = {static_cast<uint64_t>(step), static_cast<uint64_t>(step)};
    t.box = {static_cast<uint32_t>(gemm_row_bytes / size), 1, 64};
    out.push_back(t);
    return true;
  };
  return add(args.boxed_in, offsetof(TilesParameters, in_tiles)) && add(args.boxed_out, offsetof(TilesParameters, out_tiles));
}

// A call that the tiles can compute.
template <class P>
struct Problem {
  P p;
  TileMaps maps;
  std::vector<CudaTiles> boxes;  // of the epilogue
  std::vector<Choice> choices;
};
template <class P>
std::optional<Problem<P>> problem_of(const GemmCall& c, TilesArgs args) {
  if (!c.a_aligned || !c.b_aligned || !c.others_aligned || !c.machine.tiles) return std::nullopt;
  std::vector<int64_t> first;
  for (size_t i = 0; i < c.args.parts_of_b; ++i) first.push_back(c.first_column(i));
  for (size_t k = 0; k < std::size(large_tiles); ++k) {
    if (!c.is_empty() && !fits_parts(large_tiles[k], first, c.size.n, c.args.gated)) args.tiles &= static_cast<uint16_t>(~(1u << k));
  }
  if (args.tiles == 0) return std::nullopt;
  Problem<P> out{};
  out.p.size = c.size;
  std::copy(std::begin(c.walk.m_extent), std::end(c.walk.m_extent), out.p.m_extent);
  std::copy(std::begin(c.walk.k_extent), std::end(c.walk.k_extent), out.p.k_extent);
  if (!add_boxes(c, args, out.boxes)) return std::nullopt;
  auto maps = tiles_of(c, out.p);
  if (!maps) return std::nullopt;
  out.maps = std::move(*maps);
  out.p.taps = static_cast<int>(out.maps.taps);
  out.p.chunks = static_cast<int>(out.maps.chunks);
  out.choices = choices_of(c.size, out.maps.taps * out.maps.chunks, c.machine.multiprocessors, c.args, args);
  return out;
}

// The wanted choice (see wanted_choice), else the one that the model prefers. Those that the model finds nearly as fast can be timed.
Choice choose(const GemmCall& c, const std::vector<Choice>& all, CudaLaunches& list) {
  list.problem = c.problem();
  for (const Choice& choice : all) {
    if (list.choices.size() < max_timed_choices && choice.microseconds <= max_timed_ratio * all[0].microseconds) list.choices.push_back(choice.text());
  }
  const std::string_view wanted = wanted_choice(c.call, c.machine, list.problem);
  const auto found = std::find_if(all.begin(), all.end(), [&](const Choice& choice) { return !wanted.empty() && choice.text() == wanted; });
  return found == all.end() ? all[0] : *found;
}

std::shared_ptr<const void> parse(std::span<const std::byte> bytes, const GemmArgs& gemm) { return std::make_shared<TilesArgs>(parse_tiles_args(bytes, gemm)); }

template <class P>
std::optional<CudaLaunches> launches_with(const GemmCall& c, const TilesArgs& args) {
  auto problem = problem_of<P>(c, args);
  if (!problem) return std::nullopt;
  GemmLaunches out(c);
  if (!c.is_empty()) {
    P& p = problem->p;
    const Choice choice = choose(c, problem->choices, out.list);
    const LargeTile& t = large_tiles[choice.tile];
    p.shares = out.share_k(problem->maps.taps * problem->maps.chunks, choice.splits);
    const auto depth = static_cast<uint32_t>(depth_of(c.args));
    const auto rows = static_cast<uint32_t>(t.rows), columns = static_cast<uint32_t>(t.results(c.args.gated)), cluster = static_cast<uint32_t>(t.cluster);
    CudaTiles& a = problem->maps.a;
    a.box = a.pixels ? std::array<uint32_t, 4>{depth, rows} : std::array<uint32_t, 4>{depth, 1, rows};
    for (CudaTiles& b : problem->maps.b) b.box = c.args.b_along_k ? std::array<uint32_t, 4>{depth, 1, columns / cluster} : std::array<uint32_t, 4>{64, depth / cluster, 1};
    const int64_t blocks = t.grid(p.size.m, p.size.n, c.args.gated) * p.shares.splits;
    CudaLaunch& made = out.add(fmt::format("t{}", choice.tile), p, t.ping_pong > 0 ? std::min<int64_t>(blocks, c.machine.multiprocessors / t.cluster * t.cluster) : blocks,
                               t.threads(), t.shared(args.column_bytes, args.boxed_bytes(c.args.type)));
    made.work_tiles = static_cast<uint32_t>(std::min<int64_t>(blocks, INT32_MAX));
    made.spare = true;
    made.tiles = std::move(problem->boxes);
    made.tiles.push_back(a);
    made.tiles.insert(made.tiles.end(), problem->maps.b.begin(), problem->maps.b.end());
    out.finish(p.shares);
  }
  out.list.aligned = c.aligned(true, true);
  return with_any_address(std::move(out.list), c);
}

std::optional<CudaLaunches> launches(const GemmCall& c, const void* own) {
  const auto& args = *static_cast<const TilesArgs*>(own);
  return c.args.parts_of_b > 1 ? launches_with<TilesOfPartsParameters>(c, args) : launches_with<TilesParameters>(c, args);
}

double cost(const GemmSizes& s) {
  const bool long_sums = !s.through_map && fills_tiles_of_library(s);
  return cost_of_work(s.floats && s.m == 1 ? tiles_one_row : long_sums ? tiles_of_long_sums : 1, s);
}

}  // namespace

extern const GemmImplementation gemm_tiles;
constexpr GemmImplementation gemm_tiles{"gemm_tiles", parse, launches, cost};

double work_of(const GemmSizes& s) {
  const int64_t turns = divided_up(s.k, gemm_row_bytes / (s.floats ? 4 : 2));
  double least = std::numeric_limits<double>::infinity();
  for (const LargeTile& t : large_tiles) {
    if (!t.takes(s.n, false, s.floats)) continue;
    for (int64_t splits = 1; splits <= splits_of(t, false, turns); ++splits)
      least = std::min(least, microseconds_of(t, s.floats, false, s.m, s.n, turns, splits, static_cast<int>(backend::cuda::hardware::h200_multiprocessors)));
  }
  return (least - launch_microseconds) * 1000 * s.slower;
}

WantedChoices gemm_tiles_choices(std::span<const Call> calls, const CudaMachine& machine) {
  struct Part {
    std::string problem;
    std::vector<Choice> choices;
    bool floats;
  };
  auto parts_on = [&](int multiprocessors) {
    std::vector<Part> out;
    for (const Call& call : calls) {
      const auto& loaded = *static_cast<const LoadedGemm*>(call.constants);
      const CudaMachine part{multiprocessors, machine.tiles};
      const GemmCall c(loaded.args, call, part);
      Part& made = out.emplace_back(Part{c.problem(), {}, loaded.args.type == ir::DType::f32});
      for (const LoadedGemm::One& one : loaded.implementations) {
        if (one.implementation != &gemm_tiles) continue;
        const auto& own = *static_cast<const TilesArgs*>(one.args.get());
        auto take = [&](auto problem) {
          if (problem) made.choices = std::move(problem->choices);
        };
        c.args.parts_of_b > 1 ? take(problem_of<TilesOfPartsParameters>(c, own)) : take(problem_of<TilesParameters>(c, own));
      }
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

}  // namespace ingot::kernels
