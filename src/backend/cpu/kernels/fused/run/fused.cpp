// The "fused" kernel: runs a body over its domain and distributes rows or blocks to the workers.
#include <algorithm>

#include "backend/cpu/kernels/fused/run/cut.h"
#include "backend/cpu/kernels/fused/run/row_body.h"
#include "backend/cpu/kernels/fused/run/row_copy.h"
#include "backend/cpu/kernels/fused/run/segment_copy.h"
#include "backend/cpu/kernels/fused/run/stage.h"
#include "backend/cpu/kernels/fused/run/transposed_copy.h"
#include "base/error.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels {

namespace {

// How a part is distributed.
struct Walk {
  int64_t rows = 1, length = 1;   // outer elements; elements of a row
  int64_t segments = 1, segment_size = 0;  // per row, if it may be split, and elements of each
  int64_t tasks = 1;
  int64_t together = 1;           // rows of a staged tile, or rows that read the same transposed tiles
  int64_t sums = 1, sum_tasks = 1;  // parts of each row's first sum, or of all its reductions; tasks that take them, before the others
  size_t part_bytes = 0;          // of what a part gives
  // The first of a task's segments; that of the task after the last is their number.
  int64_t first(int64_t task) const { return rows * segments * task / tasks; }
};

struct Schedule {
  Cut cut;
  std::vector<Walk> walks;        // per part
  std::optional<TransposedCopy> copy;  // runs the only part, if it is a copy
  std::optional<SegmentCopy> by_segments;  // runs the last part
  std::optional<RowCopy> rows;         // runs the last part
  std::optional<RowBody> body;         // runs the last part
  size_t scratch = 0;             // bytes per worker
  size_t held = 0;                // offset in the scratch after the workers': pointers to held values, then the values
  size_t sums = 0;                // offset of the parts of sums
};

// Innermost rows that read the same elements of all transposed operands, at other places.
int64_t rows_of_tiles(const Bound& b) {
  int64_t rows = 1;
  if (b.transposed.size() != b.transposed_loads) return rows;
  for (int a = b.program->domain_rank - b.program->row_rank - b.across - 1; a >= 0 && !b.transposed.empty(); --a) {
    const auto axis = static_cast<size_t>(a);
    if (std::any_of(b.transposed.begin(), b.transposed.end(), [&](const Bound::Staged& s) { return s.strides[axis] != 0; })) break;
    rows *= b.domain[axis];
  }
  return rows;
}

Walk walk_of(const Bound& b, int64_t workers) {
  Walk w;
  const Program& p = *b.program;
  const int row = p.domain_rank - p.row_rank;
  for (int a = 0; a < p.domain_rank; ++a) {
    if (a >= row - b.across && a < row) continue;
    (a < row ? w.rows : w.length) *= b.domain[static_cast<size_t>(a)];
  }
  if (!b.staged.empty()) {
    w.together = std::min(StageTile::rows, b.domain[static_cast<size_t>(row) - 1]);
    w.rows = w.rows / b.domain[static_cast<size_t>(row) - 1] * ((b.domain[static_cast<size_t>(row) - 1] + w.together - 1) / w.together);
    w.segment_size = std::min<int64_t>(StageTile::columns, static_cast<int64_t>(b.block));
    w.segments = std::max<int64_t>(1, (w.length + w.segment_size - 1) / w.segment_size);
  } else if (!p.has_reductions || b.across != 0) {
    w.sums = sums_across(b);
    w.segment_size = static_cast<int64_t>(b.block);
    // Long blocks of what is in memory: shorter ones, so that each thread gets some.
    if (b.line == 0 && b.across == 0 && workers > 1)
      w.segment_size = std::clamp((w.rows * w.length / (4 * workers) + 63) / 64 * 64, std::min(w.segment_size, fused_tuning::block_elements), w.segment_size);
    if (b.line != 0) w.segment_size = w.segment_size / b.line * b.line;
    // Few rows with long reductions: shorter segments, so that each thread gets some.
    const int64_t fair = w.rows * w.length * b.places >= fused_tuning::least_divided_row ? (w.rows * w.length / (2 * workers) + 15) / 16 * 16 : w.segment_size;
    if (b.across != 0 && workers > 1 && w.sums == 1) w.segment_size = std::clamp<int64_t>(fair, std::min<int64_t>(32, w.segment_size), w.segment_size);
    if (!b.transposed.empty()) w.segment_size = std::min(w.segment_size, TransposedTile(b).rows);
    w.together = rows_of_tiles(b);
    w.segments = std::max<int64_t>(1, (w.length + w.segment_size - 1) / w.segment_size);
    w.part_bytes = static_cast<size_t>(w.length) * sizeof(double);
  } else {
    w.sums = parts_of_row(b);
    w.part_bytes = b.reductions.size() * Evaluator::state_bytes;
  }
  int64_t units = w.rows * w.segments;
  int64_t work = w.rows * (b.staged.empty() ? 1 : w.together) * w.length * b.places * static_cast<int64_t>(p.code.size());
  if (w.sums > 1) {
    w.sum_tasks = std::min(w.rows * w.sums, workers * 4);
    work = w.rows * static_cast<int64_t>(w.part_bytes / sizeof(double)) * w.sums;
  }
  // Also because the steps around divide the same rows.
  int64_t wanted = work < (w.rows == 1 ? fused_tuning::least_divided_row : fused_tuning::least_divided) ? 1 : workers * 4;
  w.tasks = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(units, 1));
  return w;
}

// Runs one task of a part with staged operands: tiles of rows by columns.
void run_staged(const Bound& b, const Walk& w, std::span<const TensorRef> operands, std::byte* scratch, std::byte* const* held, int64_t task) {
  TensorRef local[StageTile::max_operands];
  const std::span<TensorRef> own(local, operands.size());
  std::copy(operands.begin(), operands.end(), local);
  Evaluator evaluator(b, own, scratch, held);
  const size_t row = b.domain.size() - 2;
  const int64_t groups = (b.domain[row] + w.together - 1) / w.together, end = w.first(task + 1);
  int64_t at[16] = {};
  for (int64_t u = w.first(task); u < end; ++u) {
    int64_t outer = u / w.segments / groups;
    for (size_t a = row; a-- > 0; outer /= b.domain[a]) at[a] = outer % b.domain[a];
    const int64_t column = u % w.segments * w.segment_size, columns = std::min(w.segment_size, w.length - column);
    const int64_t first = u / w.segments % groups * w.together, rows = std::min(w.together, b.domain[row] - first);
    at[row] = first;
    stage_tile(b, operands, at, rows, column, columns, scratch + (b.scratch + 63) / 64 * 64, own);
    for (; at[row] < first + rows; ++at[row]) evaluator.segment(at, column, columns, nullptr);
  }
}

// The outer coordinates of a row. Divisions are slow compared to a short row.
void find_row(const Bound& b, int64_t row, int64_t* at) {
  const int outer = b.program->domain_rank - b.program->row_rank - b.across;
  for (int a = outer - 1; a > 0; --a) {
    at[a] = row % b.domain[static_cast<size_t>(a)];
    row /= b.domain[static_cast<size_t>(a)];
  }
  if (outer > 0) at[0] = row;
}

// Takes the parts of a part's first sums, or of its reductions.
void take_sums(const Bound& b, const Walk& w, std::span<const TensorRef> operands, std::byte* scratch, size_t per_worker, std::byte* const* held, std::byte* sums,
               Workers& workers) {
  const int64_t parts = w.rows * w.sums;
  workers.run(w.sum_tasks, [&](int64_t task, int worker) {
    Evaluator evaluator(b, operands, scratch + static_cast<size_t>(worker) * per_worker, held);
    int64_t at[16] = {};
    for (int64_t u = parts * task / w.sum_tasks; u < parts * (task + 1) / w.sum_tasks; ++u) {
      find_row(b, u / w.sums, at);
      std::byte* const to = sums + static_cast<size_t>(u) * w.part_bytes;
      b.across != 0 ? evaluator.sum_across(at, u % w.sums, w.sums, reinterpret_cast<double*>(to)) : evaluator.part_of_row(at, u % w.sums, w.sums, to);
    }
  });
}

// Runs one task of a part.
void run_task(const Bound& b, const Walk& w, Evaluator& evaluator, int64_t task, const std::byte* sums = nullptr) {
  const Program& p = *b.program;
  const int64_t end = w.first(task + 1);
  int64_t at[16] = {};
  for (int64_t u = w.first(task); u < end; ++u) {
    const int64_t segment = w.segments == 1 ? 0 : u % w.segments;
    find_row(b, w.segments == 1 ? u : u / w.segments, at);
    if (b.across != 0) {
      const auto* first = reinterpret_cast<const double*>(sums);
      const std::span<const double> parts(first + (w.sums > 1 ? u / w.segments * w.sums * w.length : 0), static_cast<size_t>(w.sums > 1 ? w.sums * w.length : 0));
      evaluator.across(at, segment * w.segment_size, std::min(w.segment_size, w.length - segment * w.segment_size), parts);
    } else if (w.sums > 1) {
      evaluator.row_of_parts(at, w.sums, sums + static_cast<size_t>(u * w.sums) * w.part_bytes);
    } else if (b.rows_together != 0) {
      const auto axis = static_cast<size_t>(p.domain_rank - p.row_rank) - 1;
      const int64_t count = std::min({b.rows_together, end - u, b.domain[axis] - at[axis]});
      evaluator.rows(at, count);
      u += count - 1;
    } else if (p.has_reductions) {
      evaluator.row(at);
    } else if (b.copies) {
      evaluator.copy(at, segment * w.segment_size, std::min(w.segment_size, w.length - segment * w.segment_size));
    } else {
      evaluator.segment(at, segment * w.segment_size, std::min(w.segment_size, w.length - segment * w.segment_size), nullptr);
    }
  }
}

// Runs one task of a part with short rows, tile by tile.
void run_transposed(const Bound& b, const Walk& w, std::span<const TensorRef> operands, std::byte* scratch, std::byte* const* held, int64_t task) {
  TensorRef local[StageTile::max_operands];
  const std::span<TensorRef> own(local, operands.size());
  std::copy(operands.begin(), operands.end(), local);
  Evaluator evaluator(b, own, scratch, held);
  std::byte* const tiles = scratch + (b.scratch + 63) / 64 * 64;
  int64_t at[16] = {};
  const int64_t first = w.first(task), end = w.first(task + 1);
  for (int64_t u = first; u < end; ++u) {
    const int64_t tile = u / w.together, begin = tile % w.segments * w.segment_size, n = std::min(w.segment_size, w.length - begin);
    find_row(b, tile / w.segments * w.together + u % w.together, at);
    if (u == first || u % w.together == 0) stage_rows(b, operands, at, begin, n, tiles, own);
    evaluator.across(at, begin, n);
    return_rows(b, operands, at, begin, n, tiles);
  }
}

// The last sizes of the step are the extents of the domain.
std::shared_ptr<const void> load(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  size_t rank = constants.size() > 4 ? static_cast<size_t>(constants[4]) : 0;
  if (rank > sizes) fail(Code::format, "a fused step has {} sizes for a domain of rank {}", sizes, rank);
  auto program = load_program(constants, operands, sizes - rank);
  if (program->has_accumulator) fail(Code::format, "a fused step reads an accumulator");
  return program;
}

size_t pointers_of(const Cut& cut) { return (cut.held.size() * sizeof(std::byte*) + 63) / 64 * 64; }

// Without scratch, only what is known has a place.
void place_held(const Cut& cut, std::byte** held, std::byte* numbers, std::byte* scratch) {
  for (const Cut::Held& h : cut.held) {
    std::byte* const from = h.known ? numbers : scratch;
    *held++ = from == nullptr ? nullptr : from + h.offset;
  }
}

// Computes the parts that read no memory.
void fill_known(Schedule& s, std::span<const TensorRef> operands) {
  std::vector<std::byte*> held(s.cut.held.size());
  place_held(s.cut, held.data(), s.cut.numbers.data(), nullptr);
  std::vector<std::byte> scratch(s.scratch + 64);
  auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
  for (size_t n = 0; n < s.cut.parts.size(); ++n) {
    if (!s.cut.parts[n].known) continue;
    Evaluator evaluator(s.cut.parts[n].bound, operands, aligned, held.data());
    for (int64_t task = 0; task < s.walks[n].tasks; ++task) run_task(s.cut.parts[n].bound, s.walks[n], evaluator, task);
  }
}

Resolved resolve(const Call& call) {
  std::shared_ptr<const Program> program(std::shared_ptr<const void>(), static_cast<const Program*>(call.constants));
  auto rank = static_cast<size_t>(program->domain_rank);
  auto extents = call.sizes.last(rank);
  std::vector<int64_t> domain(extents.begin(), extents.end());
  auto s = std::make_shared<Schedule>();
  s->cut = cut_program(*program, call.operands, call.sizes.first(call.sizes.size() - rank), domain);
  const int64_t workers = call.workers->count();
  for (const Cut::Part& part : s->cut.parts) {
    s->walks.push_back(walk_of(part.bound, workers));
    const size_t tiles = part.bound.staged.size() * StageTile::bytes + part.bound.transposed.size() * TransposedTile(part.bound).bytes;
    s->scratch = std::max(s->scratch, (part.bound.scratch + 63) / 64 * 64 + tiles);
  }
  if (s->cut.parts.size() == 1) s->copy = transposed_copy(s->cut.parts[0].bound);
  s->rows = row_copy(s->cut.parts.back().bound);
  s->body = row_body(s->cut.parts.back().bound);
  fill_known(*s, call.operands);
  s->by_segments = segment_copy(s->cut, workers);
  s->held = (static_cast<size_t>(workers) * s->scratch + 63) / 64 * 64;
  s->sums = (s->held + pointers_of(s->cut) + s->cut.bytes + 63) / 64 * 64;
  size_t sums = 0;
  for (const Walk& w : s->walks) sums = std::max(sums, w.sums > 1 ? static_cast<size_t>(w.rows * w.sums) * w.part_bytes : 0);
  return {s->sums + sums, s};
}

void run(const Call& call) {
  const auto& s = *static_cast<const Schedule*>(call.prepared);
  const Walk& last = s.walks.back();
  if (last.rows == 0 || (last.length == 0 && !s.cut.parts.back().bound.program->has_reductions)) return;
  if (s.copy) {
    const int64_t units = s.copy->units, tasks = std::min(last.tasks, units);
    return call.workers->run(tasks, [&](int64_t task, int) { s.copy->run(call.operands, units * task / tasks, units * (task + 1) / tasks); });
  }
  auto** held = reinterpret_cast<std::byte**>(call.scratch + s.held);
  place_held(s.cut, held, const_cast<std::byte*>(s.cut.numbers.data()), call.scratch + s.held + pointers_of(s.cut));  // known values are only read
  for (size_t n = 0; n < s.cut.parts.size(); ++n) {
    const Cut::Part& part = s.cut.parts[n];
    if (part.known) continue;
    if (n + 1 == s.cut.parts.size() && s.by_segments) {
      const int64_t units = s.by_segments->units, tasks = s.by_segments->tasks;
      return call.workers->run(tasks, [&](int64_t task, int) { s.by_segments->run(call.operands, units * task / tasks, units * (task + 1) / tasks); });
    }
    if (n + 1 == s.cut.parts.size() && (s.rows || s.body)) {
      const int64_t rows = last.rows, tasks = std::min(last.tasks, rows);
      return call.workers->run(tasks, [&](int64_t task, int) {
        const int64_t begin = rows * task / tasks, end = rows * (task + 1) / tasks;
        s.rows ? s.rows->run(call.operands, held, begin, end) : s.body->run(call.operands, held, begin, end);
      });
    }
    std::byte* const sums = call.scratch + s.sums;
    if (s.walks[n].sums > 1) take_sums(part.bound, s.walks[n], call.operands, call.scratch, s.scratch, held, sums, *call.workers);
    call.workers->run(s.walks[n].tasks, [&](int64_t task, int worker) {
      std::byte* scratch = call.scratch + static_cast<size_t>(worker) * s.scratch;
      if (!part.bound.transposed.empty()) return run_transposed(part.bound, s.walks[n], call.operands, scratch, held, task);
      if (!part.bound.staged.empty()) return run_staged(part.bound, s.walks[n], call.operands, scratch, held, task);
      Evaluator evaluator(part.bound, call.operands, scratch, held);
      run_task(part.bound, s.walks[n], evaluator, task, sums);
    });
  }
}

}  // namespace

std::span<const RunKernel> fused_cpu_kernels() {
  static constexpr RunKernel list[] = {{"fused", load, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
