// The "fused" kernel: a body over its whole domain, rows or blocks handed out to the workers.
#include <algorithm>

#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/kernels/fused/run/transposed_copy.h"
#include "base/error.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels {

namespace {

struct Schedule {
  Bound bound;
  int64_t rows = 1, length = 1;   // outer elements; elements of a row
  int64_t pieces = 1, piece = 1;  // of a row, when it may be cut: how many, their elements
  int64_t tasks = 1, per_task = 1;
  std::optional<TransposedCopy> copy;  // instead
};

// The extents of the domain are the step's last sizes.
std::shared_ptr<const void> load(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  size_t rank = constants.size() > 4 ? static_cast<size_t>(constants[4]) : 0;
  if (rank > sizes) fail(Code::format, "a fused step has {} sizes for a domain of rank {}", sizes, rank);
  auto program = load_program(constants, operands, sizes - rank);
  if (program->has_accumulator) fail(Code::format, "a fused step reads an accumulator");
  return program;
}

Resolved resolve(const Call& call) {
  std::shared_ptr<const Program> program(std::shared_ptr<const void>(), static_cast<const Program*>(call.constants));
  auto rank = static_cast<size_t>(program->domain_rank);
  auto extents = call.sizes.last(rank);
  std::vector<int64_t> domain(extents.begin(), extents.end());
  auto s = std::make_shared<Schedule>();
  s->bound = bind_program(program, call.operands, call.sizes.first(call.sizes.size() - rank), domain, true);
  const Program& p = *s->bound.program;
  const int outer = p.domain_rank - p.row_rank - s->bound.reduced;
  int64_t reduced = 1;
  for (int a = 0; a < p.domain_rank; ++a) (a < outer ? s->rows : a < p.domain_rank - p.row_rank ? reduced : s->length) *= s->bound.domain[static_cast<size_t>(a)];
  int64_t workers = call.workers->count();
  int64_t work = s->rows * reduced * s->length * static_cast<int64_t>(p.code.size());
  s->piece = s->length;
  if (!p.has_reductions || s->bound.reduced > 0) {
    s->piece = static_cast<int64_t>(s->bound.block);
    constexpr int64_t least = 32, enough = 100000;  // columns of a worker; work for several
    if (s->bound.reduced > 0 && work > enough && s->rows < workers) s->piece = std::clamp((s->length / workers + least - 1) / least * least, least, s->piece);
    s->pieces = std::max<int64_t>(1, (s->length + s->piece - 1) / s->piece);
  }
  s->copy = transposed_copy(s->bound);
  int64_t units = s->copy ? s->copy->units : s->rows * s->pieces;
  // Too little work for two threads: 30,000 element operations take about as long as waking one.
  int64_t wanted = work < 30000 ? 1 : workers * 4;
  s->tasks = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(units, 1));
  s->per_task = (units + s->tasks - 1) / std::max<int64_t>(s->tasks, 1);
  return {static_cast<size_t>(workers) * s->bound.scratch, s};
}

void run(const Call& call) {
  const auto& s = *static_cast<const Schedule*>(call.prepared);
  const Program& p = *s.bound.program;
  if (s.rows == 0 || (s.length == 0 && !p.has_reductions)) return;
  if (s.copy) return call.workers->run(s.tasks, [&](int64_t task, int) { s.copy->run(call.operands, task * s.per_task, std::min(s.copy->units, (task + 1) * s.per_task)); });
  int outer = p.domain_rank - p.row_rank - s.bound.reduced;
  int64_t units = s.rows * s.pieces;
  call.workers->run(s.tasks, [&](int64_t task, int worker) {
    Evaluator evaluator(s.bound, call.operands, call.scratch + static_cast<size_t>(worker) * s.bound.scratch);
    int64_t end = std::min(units, (task + 1) * s.per_task);
    int64_t at[16] = {};
    for (int64_t u = task * s.per_task; u < end; ++u) {
      // Divisions are slow beside a short row: none where the answer is known.
      int64_t row = s.pieces == 1 ? u : u / s.pieces, piece = s.pieces == 1 ? 0 : u % s.pieces;
      for (int a = outer - 1; a > 0; --a) {
        at[a] = row % s.bound.domain[static_cast<size_t>(a)];
        row /= s.bound.domain[static_cast<size_t>(a)];
      }
      if (outer > 0) at[0] = row;
      const int64_t begin = piece * s.piece, n = std::min(s.piece, s.length - begin);
      if (s.bound.reduced > 0) {
        evaluator.columns(at, begin, n);
      } else if (p.has_reductions) {
        evaluator.row(at);
      } else {
        evaluator.segment(at, begin, n, nullptr);
      }
    }
  });
}

}  // namespace

std::span<const RunKernel> fused_cpu_kernels() {
  static constexpr RunKernel list[] = {{"fused", load, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
