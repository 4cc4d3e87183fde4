#include "backend/cpu/kernels/conv/lines/run/lines.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "backend/cpu/kernels/conv/lines/run/line_plan.h"
#include "backend/cpu/kernels/conv/run/tuning.h"
#include "backend/cpu/run/isa.h"

namespace ingot::kernels {

const LineTiles& line_tiles() { return INGOT_TABLES(line_tiles).best(); }

namespace {

namespace tuning = conv::tuning;

constexpr int max_axes = LinePlan::max_axes;
constexpr size_t none = SIZE_MAX;
using Index = LinePlan::Index;
using Along = LinePlan::Along;
using Tap = LinePlan::Tap;

size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

// The only axis along which an index moves; -1 if there is none or several.
int only_axis(const Index& i, int rank) {
  int found = -1;
  for (int j = 0; j < rank; ++j) {
    if (i.along[j] == 0) continue;
    if (found >= 0) return -1;
    found = j;
  }
  return found;
}

class Planner {
 public:
  Planner(const LineProblem& q, LinePlan& p) : q_(q), p_(p) {
    const size_t indices = q.sizes.size() - static_cast<size_t>(q.a.rank);
    p.rank = q.a.rank;
    for (int j = 0; j < p.rank; ++j) {
      p.size[j] = q.a.dims[j];
      p.stride[j] = q.a.strides[j];
      p.offset[j] = q.sizes[indices + static_cast<size_t>(j)];
    }
    for (size_t i = 0; i < indices; ++i) {
      Index index{q.sizes[i], 0, 0, 0, {}};
      for (int j = 0; j < p.rank; ++j) index.along[j] = q.steps[static_cast<size_t>(j) * indices + i];
      if (i < q.kept.size()) {
        index.to = q.kept[i].to, index.bias = q.kept[i].bias, index.b = q.kept[i].b;
      } else if (q.panel == 0) {
        index.b = q.b_summed[i - q.kept.size()];
      }
      (i < q.kept.size() ? kept_ : summed_).push_back(index);
    }
  }

  bool plan() {
    if (!choose_line()) return false;
    join_windows(kept_[x_]);
    count_elements(kept_[x_]);
    for (const Index& i : kept_) {
      if (i.extent > 1 && i.to == kept_[x_].extent * kept_[x_].to) join_windows(i);
    }
    if (!find_line()) return false;
    find_next();
    for (size_t i = 0; i < kept_.size(); ++i) {
      if (i != x_ && i != y_ && kept_[i].extent != 1) p_.outer.push_back(kept_[i]);
    }
    p_.in_place = p_.x.step == 1 && !leaves() && p_.x.extent >= p_.lanes() && !reads_often();
    if (!leaves() && p_.x.step == 1 && p_.y.extent > 1 && p_.stride[p_.y.axis] * p_.y.step == p_.x.extent && p_.y.to == p_.x.extent * p_.x.to) join();
    list_taps();
    return true;
  }

  // From a tap to the one below it; 0 if there is none.
  int64_t tap_distance() const {
    int64_t distance = y_window_ == none ? 0 : 1;
    for (size_t i = y_window_ + 1; distance > 0 && i < summed_.size(); ++i) distance *= summed_[i].extent;
    return distance;
  }

 private:
  // The last index of results with neighbouring results, or else with results some elements apart of neighbours in A: a phase of a transposed convolution.
  bool choose_line() {
    for (const bool strided : {false, true}) {
      for (size_t i = kept_.size(); i-- > 0 && x_ == none;) {
        const int axis = only_axis(kept_[i], p_.rank);
        if (kept_[i].extent > 1 && (strided ? kept_[i].to > 1 && kept_[i].to <= tuning::max_line_step && axis >= 0 && p_.stride[axis] == 1 : kept_[i].to == 1)) x_ = i;
      }
    }
    return x_ != none;
  }

  // The summed index that moves along an axis: none, or one that moves along no other. False if there are more.
  bool window(int axis, Along& to, size_t& index) {
    for (size_t i = 0; i < summed_.size(); ++i) {
      if (summed_[i].along[axis] == 0 || summed_[i].extent == 1) continue;
      if (index != none || only_axis(summed_[i], p_.rank) != axis) return false;
      index = i;
      to.taps = summed_[i].extent;
      to.dilation = summed_[i].along[axis];
    }
    return true;
  }

  // True if no other index of results moves along the axis.
  bool alone(size_t index, int axis) const {
    for (size_t i = 0; i < kept_.size(); ++i) {
      if (i != index && kept_[i].extent != 1 && kept_[i].along[axis] != 0) return false;
    }
    return true;
  }

  // Windows may be axes of a view of A, whose elements overlap: an index of results moves along one of them and a summed index along another. They become windows
  // along one axis.
  void join_windows(const Index& mover) {
    const int axis = only_axis(mover, p_.rank);
    if (axis < 0 || p_.stride[axis] < 1 || leaves(axis)) return;
    for (int j = 0; j < p_.rank; ++j) {
      if (j == axis || p_.size[j] == 1 || p_.stride[j] < 1 || leaves(j) || p_.stride[j] * (p_.size[j] - 1) >= p_.stride[axis] * p_.size[axis]) continue;
      size_t other = none, movers = 0;
      for (size_t i = 0; i < summed_.size(); ++i) {
        if (summed_[i].along[j] != 0) other = i, ++movers;
      }
      for (const Index& i : kept_) movers += i.along[j] != 0 ? 1 : 0;
      if (movers != 1 || other == none || only_axis(summed_[other], p_.rank) != j) continue;
      const int64_t unit = std::gcd(p_.stride[axis], p_.stride[j]), of_axis = p_.stride[axis] / unit, of_other = p_.stride[j] / unit;
      for (std::vector<Index>* list : {&kept_, &summed_}) {
        for (Index& i : *list) i.along[axis] *= of_axis;
      }
      summed_[other].along[axis] = summed_[other].along[j] * of_other;
      summed_[other].along[j] = 0;
      p_.offset[axis] = p_.offset[axis] * of_axis + p_.offset[j] * of_other;
      p_.size[axis] = (p_.size[axis] - 1) * of_axis + (p_.size[j] - 1) * of_other + 1;
      p_.offset[j] = 0;
      p_.stride[axis] = unit;
      return;
    }
  }

  // Outputs some elements apart along an axis that is never left: its places become elements.
  void count_elements(const Index& mover) {
    const int axis = only_axis(mover, p_.rank);
    if (axis < 0 || p_.stride[axis] <= 1 || leaves(axis)) return;
    const int64_t step = p_.stride[axis];
    for (std::vector<Index>* list : {&kept_, &summed_}) {
      for (Index& i : *list) i.along[axis] *= step;
    }
    p_.offset[axis] *= step;
    p_.size[axis] = (p_.size[axis] - 1) * step + 1;
    p_.stride[axis] = 1;
  }

  bool find_line() {
    if (kept_[x_].bias != 0 || kept_[x_].b != 0) return false;
    const int axis = only_axis(kept_[x_], p_.rank);
    if (axis < 0 || p_.stride[axis] != 1 || !alone(x_, axis) || !window(axis, p_.x, x_window_)) return false;
    p_.x.axis = axis;
    p_.x.extent = kept_[x_].extent;
    p_.x.step = kept_[x_].along[axis];
    p_.x.to = kept_[x_].to;
    return true;
  }

  // An index whose lines share what they read, if there is one.
  void find_next() {
    for (bool shares : {true, false}) {
      for (size_t i = kept_.size(); i-- > 0 && y_ == none;) {
        if (i == x_ || kept_[i].extent == 1 || kept_[i].bias != 0 || kept_[i].b != 0) continue;
        const int axis = only_axis(kept_[i], p_.rank);
        Along along{axis, kept_[i].extent, 0, kept_[i].to, 1, 0};
        size_t of_window = none;
        const bool is_free = axis >= 0 && axis != p_.x.axis && alone(i, axis);
        if (!is_free || !window(axis, along, of_window) || (shares && of_window == none)) continue;
        along.step = kept_[i].along[axis];
        y_ = i;
        y_window_ = of_window;
        p_.y = along;
      }
    }
  }

  // True if some window leaves A, along one axis or any.
  bool leaves(int j) const {
    int64_t last = p_.offset[j];
    for (const std::vector<Index>* list : {&kept_, &summed_}) {
      for (const Index& i : *list) last += i.along[j] * (i.extent - 1);
    }
    return p_.offset[j] < 0 || last >= p_.size[j];
  }
  bool leaves() const {
    for (int j = 0; j < p_.rank; ++j) {
      if (leaves(j)) return true;
    }
    return false;
  }

  // True if A is read again for many columns, from many places: it is better copied to one place.
  bool reads_often() const {
    int64_t taps = 1;
    for (const Index& i : summed_) taps *= i.extent;
    return p_.columns > tuning::reading_tiles * p_.tiles->max_columns && taps > tuning::copied_taps;
  }

  // All lines as one.
  void join() {
    if (p_.y.taps > 1 || p_.x.taps > 1) return;
    p_.x.extent *= p_.y.extent;
    p_.y.extent = 1;
    p_.size[p_.x.axis] = p_.offset[p_.x.axis] + p_.x.extent;
  }

  // Lists the combinations of summed indices, and the planes that they are in.
  void list_taps() {
    int64_t count = 1;
    for (const Index& i : summed_) count *= i.extent;
    for (int64_t k = 0; k < count; ++k) {
      Tap tap{};
      Index plane{1, 0, 0, 0, {}};
      int64_t rest = k, b = 0, of_planes = 1;
      for (size_t i = summed_.size(); i-- > 0; rest /= summed_[i].extent) {
        const int64_t at = rest % summed_[i].extent;
        b += at * summed_[i].b;
        if (i == x_window_) {
          tap.x = at * p_.x.dilation;
        } else if (i == y_window_) {
          tap.y = at * p_.y.dilation;
        } else {
          for (int j = 0; j < p_.rank; ++j) plane.along[j] += at * summed_[i].along[j];
          tap.plane += at * of_planes;
          of_planes *= summed_[i].extent;
        }
      }
      if (p_.planes.empty()) p_.planes.resize(static_cast<size_t>(of_planes));
      p_.planes[static_cast<size_t>(tap.plane)] = plane;
      p_.taps.push_back(tap);
      if (q_.panel == 0) p_.b_rows.push_back(b);
    }
  }

  const LineProblem& q_;
  LinePlan& p_;
  std::vector<Index> kept_, summed_;
  size_t x_ = none, y_ = none, x_window_ = none, y_window_ = none;
};

// The layout of the copy of a block.
void lay_out(LinePlan& p) {
  p.used_phases.clear();
  int64_t furthest = 0;
  for (const Tap& tap : p.taps) {
    p.used_phases.push_back(tap.x % p.x.step);
    furthest = std::max(furthest, tap.x / p.x.step);
  }
  std::sort(p.used_phases.begin(), p.used_phases.end());
  p.used_phases.erase(std::unique(p.used_phases.begin(), p.used_phases.end()), p.used_phases.end());
  p.phases = std::ssize(p.used_phases);
  p.run = p.vectors(p.block_x) * p.vector() + furthest;
  p.height = p.y.reach(p.block_y);
  p.used_rows.assign(static_cast<size_t>(p.height), 0);
  for (int64_t y = 0; y < p.block_y; ++y) {
    for (int64_t k = 0; k < p.y.taps; ++k) p.used_rows[static_cast<size_t>(y * p.y.step + k * p.y.dilation)] = 1;
  }
  p.all_rows = std::find(p.used_rows.begin(), p.used_rows.end(), 0) == p.used_rows.end();
  p.tap_offsets.clear();
  for (const Tap& tap : p.taps) {
    const auto phase = std::lower_bound(p.used_phases.begin(), p.used_phases.end(), tap.x % p.x.step) - p.used_phases.begin();
    p.tap_offsets.push_back((tap.plane * p.height + tap.y) * p.row() + phase * p.run + tap.x / p.x.step);
  }
  p.copy_bytes = padded(static_cast<size_t>(static_cast<int64_t>(p.planes.size()) * p.height * p.row() + p.lanes()) * 4);
}

// Computes neighbouring lines together, if windows of neighbouring lines share all but one line.
void choose_column(LinePlan& p) {
  const auto* taps = std::find(std::begin(LineColumn::taps), std::end(LineColumn::taps), p.y.taps);
  const bool one_column = p.columns == 1 && p.tap_distance != 0, shares_lines = p.y.step == 1 && p.y.dilation == 1;
  if (!one_column || !shares_lines || taps == std::end(LineColumn::taps) || std::ssize(p.taps) > longest_sum) return;
  // As few lines twice as possible.
  auto all = [&](int64_t rows) { return (p.block_y + rows - 1) / rows * rows; };
  for (const int& rows : LineColumn::rows) {
    const LineTiles::Column column = p.tiles->column[&rows - LineColumn::rows][taps - LineColumn::taps];
    if (column == nullptr || rows > p.block_y || (p.rows > 0 && all(rows) > all(p.rows))) continue;
    p.rows = rows;
    p.column = column;
  }
  if (p.column == nullptr) return;
  auto b_row = [&](size_t k) { return p.panel == 0 ? p.b_rows[k] : static_cast<int64_t>(k) * p.panel; };
  p.b_below = b_row(static_cast<size_t>(p.tap_distance)) - b_row(0);
  for (size_t k = 0; k < p.taps.size(); ++k) {
    if (p.taps[k].y == 0) p.tap_columns.push_back({p.tap_offsets[k], b_row(k)});
  }
}

// True if vectors along columns leave less of themselves empty than those along lines, which are longer than tiles across have outputs.
bool goes_across(const LinePlan& p) {
  if (p.tiles->across == nullptr || p.in_place || p.panel != 2 * p.lanes()) return false;
  auto rounded_up = [](int64_t n, int64_t of) { return (n + of - 1) / of * of; };
  const int64_t across = rounded_up(p.x.extent, p.tiles->outputs_across) * rounded_up(p.columns, p.panel),
                along = rounded_up(p.x.extent, p.lanes()) * rounded_up(p.columns, p.tiles->max_columns);
  return static_cast<double>(across) < (1 - tuning::share_of_empty) * static_cast<double>(along);
}

// Chooses blocks whose part of A stays in a second-level cache, or in the first one where it is read once only.
bool choose_blocks(LinePlan& p) {
  p.across = goes_across(p);
  const int64_t lanes = p.vector();
  const size_t enough = p.columns == 1 ? tuning::l1_of_block : tuning::l2_of_block;
  double work = static_cast<double>(p.x.extent * p.y.extent) * static_cast<double>(p.columns) * static_cast<double>(p.taps.size());
  int64_t outer = 1;
  for (const Index& i : p.outer) outer *= i.extent;
  work *= static_cast<double>(outer);
  const Machine& machine = backend::cpu::machine();
  const int64_t wanted = p.workers == 1 || work < tuning::least_wakes_of_lines * machine.wake * machine.f32 ? 1 : 4 * p.workers;
  auto too_few_blocks = [&] { return p.blocks_x * p.blocks_y * outer < wanted; };
  auto count = [&] {
    p.blocks_y = (p.y.extent + p.block_y - 1) / p.block_y;
    p.blocks_x = p.in_place ? std::max<int64_t>(1, p.x.extent / p.block_x) : (p.x.extent + p.block_x - 1) / p.block_x;
  };
  p.block_x = p.x.extent;
  p.block_y = p.y.extent;
  const int64_t unit = tuning::vectors_of_block * lanes;
  int64_t parts = 1;
  auto halve_x = [&] {
    parts *= 2;
    const int64_t each = (p.x.extent + parts - 1) / parts, whole = parts < 4 ? lanes : 3 * lanes;
    p.block_x = (each + whole - 1) / whole * whole;
  };
  if (p.in_place) {
    auto bytes = [&] { return static_cast<size_t>(static_cast<int64_t>(p.planes.size()) * p.y.reach(p.block_y) * p.block_x) * 4; };
    for (count(); (bytes() > enough || too_few_blocks()) && p.block_y > 1; count()) p.block_y = (p.block_y + 1) / 2;
    while ((bytes() > enough || too_few_blocks()) && p.block_x > 2 * unit) {
      halve_x();
      count();
    }
    for (const Tap& tap : p.taps) {
      const Index& plane = p.planes[static_cast<size_t>(tap.plane)];
      int64_t at = tap.x + (p.y.axis >= 0 ? tap.y * p.stride[p.y.axis] : 0);
      for (int j = 0; j < p.rank; ++j) at += plane.along[j] * p.stride[j];
      p.tap_offsets.push_back(at);
    }
  } else {
    count();
    for (lay_out(p); (p.copy_bytes > enough || too_few_blocks()) && p.block_y > 1; lay_out(p), count()) p.block_y = (p.block_y + 1) / 2;
    for (; (p.copy_bytes > enough || too_few_blocks()) && p.block_x > 2 * unit; lay_out(p), count()) halve_x();
    if (p.copy_bytes > tuning::max_block) return false;
  }
  p.units = p.blocks_x * p.blocks_y * outer;
  p.tasks = std::min(p.units, wanted);
  const int64_t vectors = p.block_y * p.vectors(p.in_place ? 2 * p.block_x : p.block_x);
  choose_column(p);
  p.vector_bytes = padded(static_cast<size_t>(vectors) * sizeof(LineVector));
  const int64_t tiles = (p.columns + p.tiles->max_columns - 1) / p.tiles->max_columns;
  const int64_t of_plane = std::ssize(p.taps) / std::ssize(p.planes);
  p.skips = !p.in_place && p.column == nullptr && std::ssize(p.taps) >= tuning::skipping_taps && of_plane >= tuning::taps_of_range &&
            std::is_sorted(p.taps.begin(), p.taps.end(), [](const Tap& a, const Tap& b) { return std::tie(a.plane, a.y) < std::tie(b.plane, b.y); });
  p.range_bytes = padded((p.planes.size() + p.taps.size() / longest_sum + 1) * sizeof(LinePlan::Range));
  const int64_t kept = p.across                                      ? 2 * p.panel
                       : tiles > 1                                   ? tiles * tuning::max_vectors_of_line
                       : p.skips || std::ssize(p.taps) > longest_sum ? std::max(vectors, tuning::max_vectors_of_line)
                                                                     : tuning::max_vectors_of_line;
  p.kept_bytes = padded(static_cast<size_t>(kept * p.lanes() * p.tiles->max_columns) * 4);
  if (p.panel == 0) {
    const int64_t wide = p.tiles->max_columns, columns = (p.columns + wide - 1) / wide * wide;
    p.b_bytes = padded(static_cast<size_t>(columns * static_cast<int64_t>(p.taps.size())) * 4);
  }
  return true;
}

}  // namespace

std::shared_ptr<const LinePlan> line_plan(const LineProblem& q, int workers) {
  auto p = std::make_shared<LinePlan>();
  p->tiles = &line_tiles();
  p->workers = workers;
  p->columns = q.columns, p->to_column = q.to_column, p->bias_column = q.bias_column, p->panel = q.panel, p->b_column = q.b_column;
  p->has_bias = q.has_bias, p->clamps = q.clamps, p->low = q.low, p->high = q.high;
  int64_t taps = 1;
  const size_t indices = q.sizes.size() - static_cast<size_t>(q.a.rank);
  for (size_t i = 0; i < indices; ++i) {
    if (q.sizes[i] == 0) return nullptr;
    if (i >= q.kept.size() && (taps *= q.sizes[i]) > tuning::max_line_taps) return nullptr;
  }
  if (q.columns == 0 || q.a.rank > max_axes || (q.has_bias && q.columns > 1 && q.bias_column != 1)) return nullptr;
  Planner planner(q, *p);
  if (!planner.plan()) return nullptr;
  p->tap_distance = planner.tap_distance();
  if (!choose_blocks(*p)) return nullptr;
  return p;
}

int64_t line_length(const LinePlan& p) { return p.x.extent; }

size_t scratch_of(const LinePlan& p) { return static_cast<size_t>(p.workers) * p.per_worker(); }

}  // namespace ingot::kernels
