// The "depthwise_conv" kernel, with vectors along the channels.
//
// A line is the range of the index before the channels. Its outputs form runs with the same taps inside the image. Within a run, several outputs at a time
// share what they read of B. Fewer channels than lanes: neighbouring outputs lie side by side, and rows of B are repeated to fill
// vectors of several outputs. If the body is a scale, a bias, an activation and a residual, it runs in registers; otherwise it runs row by row.
#include <algorithm>

#include "backend/cpu/kernels/depthwise_conv/run/problem.h"
#include "backend/cpu/kernels/depthwise_conv/run/tile.h"
#include "backend/cpu/kernels/depthwise_conv/run/tuning.h"
#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/run/isa.h"
#include "base/error.h"
#include "kernels/depthwise_conv/run/depthwise_conv_args.h"

namespace ingot::kernels {

const DepthwiseConvTiles& depthwise_conv_tiles() { return INGOT_TABLES(depthwise_conv_tiles).best(); }

namespace {

using namespace depthwise;
using ir::DType;

// With outputs together, `b_strides` of the summed indices are those in the repeated rows.
struct Plan : Problem {
  explicit Plan(Problem p) : Problem(std::move(p)) {}
  WindowTaps taps;
  int64_t tasks = 0;
  int64_t segments = 1;                // of each line, that different tasks compute
  int64_t together = 1;              // outputs side by side that vectors go along; then rows of B, the scale and the bias are repeated as often
  bool direct = false;               // tiles write the result themselves
  SimpleEpilogue simple;
  std::optional<VectorProgram> program;  // if `simple` is not enough
  size_t tap_bytes = 0, line_bytes = 0, repeated_bytes = 0, per_worker = 0;
};

double least_work() { return tuning::least_wakes * backend::cpu::machine().wake * backend::cpu::machine().f32; }

size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Chooses an epilogue that runs in the tiles, if there is one.
void find_end(Plan& p, const Program& body) {
  SimpleEpilogue& s = p.simple = body.simple;
  const auto& strides = p.bound.strides;
  auto is_row = [&](int operand) {  // the same for all outputs
    const std::vector<int64_t>& of = strides[static_cast<size_t>(operand)];
    return of.back() == 1 && std::all_of(of.begin(), of.end() - 1, [](int64_t x) { return x == 0; });
  };
  if (strides[body.stores[0].operand].back() != 1 || body.memory[body.stores[0].operand] != DType::f32) return;
  auto simple = [&] {
    if (!s.valid || s.type != DType::f32) return false;
    s.order(is_row);
    if (s.activates_last) return false;
    if (s.slope_operand >= 0 && !p.bound.is_one(s.slope_operand)) return false;
    for (int operand : {s.scale, s.bias}) {
      if (operand >= 0 && (!is_row(operand) || body.memory[static_cast<size_t>(operand)] != DType::f32)) return false;
    }
    return s.residual < 0 || (strides[static_cast<size_t>(s.residual)].back() == 1 && body.memory[static_cast<size_t>(s.residual)] == DType::f32);
  };
  p.direct = simple();
  if (p.direct) return;
  p.program = vector_program(body, p.bound);
  p.direct = p.program.has_value();
  s = {};
}

// How many outputs fill whole pairs of vectors; 1 if channels alone do, or if outputs or what is read for them do not lie side by side.
int64_t outputs_together(const Plan& p, const Program& body, size_t kept, int64_t places) {
  const int64_t pair = 2 * int64_t{depthwise_conv_tiles().lanes};
  auto is_adjacent = [&](int operand) { return operand < 0 || p.bound.strides[static_cast<size_t>(operand)][kept - 2] == p.channels; };
  if (!p.direct || p.program || 2 * p.channels >= pair || p.map.indices[kept - 2].step != static_cast<uint64_t>(p.channels)) return 1;
  if (!is_adjacent(static_cast<int>(body.stores[0].operand)) || !is_adjacent(p.simple.residual)) return 1;
  for (size_t i = 0; i + 1 < kept; ++i) {
    if (p.b_strides[i] != 0 && p.map.indices[i].extent > 1) return 1;
  }
  int64_t outputs = pair;
  while (outputs % 2 == 0 && outputs / 2 * p.channels % pair == 0) outputs /= 2;
  outputs = std::min(outputs, p.width);
  return places * outputs * p.channels * 4 > tuning::repeated_bytes ? 1 : outputs;
}

Resolved resolve(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  auto p = std::make_shared<Plan>(checked(call));
  if (p->is_empty()) return {0, p};
  const size_t kept = c.args.kept, indices = kept + c.args.summed;
  auto refuse = [](const char* what) { fail(Code::format, "depthwise_conv: {}", what); };
  const IndexMap::Index &across = p->map.indices[kept - 2], &channel = p->map.indices[kept - 1];
  if (channel.extent > 1 && (channel.step != 1 || p->b_strides[kept - 1] != 1)) refuse("channels are not neighbours");
  for (int axis = 0; axis < p->map.axes; ++axis) {
    if (channel.extent > 0 && channel.along[axis] != 0) refuse("channels may be outside");
  }
  const std::span<const IndexMap::Index> all(p->map.indices);
  find_end(*p, *c.body);
  int64_t places = 1;
  for (size_t i = kept; i < indices; ++i) places *= p->map.indices[i].extent;
  p->together = outputs_together(*p, *c.body, kept, places);
  if (p->together > 1) {
    int64_t step = p->together * p->channels;
    p->repeated_bytes = padded(static_cast<size_t>((places + 2) * step) * 4);
    for (size_t i = indices; i-- > kept; step *= p->map.indices[i].extent) p->b_strides[i] = step;
  }
  p->taps = WindowTaps("depthwise_conv", p->map, all.first(kept - 2), across, all.subspan(kept), std::span(p->b_strides).subspan(kept), DepthwiseConvArgs::max_summed);
  p->taps.keep_sets();
  if (!p->taps.fits) refuse("an axis is left along two indices");
  const int64_t workers = call.workers->count();
  const double work = static_cast<double>(p->lines * p->width) * static_cast<double>(p->channels) * static_cast<double>(p->taps.places());
  p->tasks = std::min<int64_t>(p->lines, work < least_work() || workers == 1 ? 1 : workers * 4);  // a task makes its lists of taps anew
  // Few lines that do not divide evenly among the workers: tasks are segments of lines. Not of outputs together, whose order of sums would depend on where a segment ends.
  const int64_t max_lines = (p->lines + workers - 1) / workers;
  if (p->direct && p->together == 1 && p->tasks > 1 && static_cast<double>(max_lines * workers) > static_cast<double>(p->lines) * (1 + tuning::max_imbalance)) {
    p->segments = std::clamp<int64_t>(workers, 1, std::max<int64_t>(1, p->width / 3));
    p->tasks = std::min(p->lines * p->segments, workers * 4);
  }
  p->tap_bytes = padded(p->taps.memory() * sizeof(WindowTap));
  p->line_bytes = p->direct ? 0 : padded(static_cast<size_t>(p->width * p->channels) * 4);
  p->per_worker = padded(p->tap_bytes + p->line_bytes + p->repeated_bytes + p->bound.scratch);
  return {static_cast<size_t>(workers) * p->per_worker, p};
}

class Line {
 public:
  Line(const Call& call, const Constants& c, const Plan& p, int worker) : Line(call, c, p, call.scratch + static_cast<size_t>(worker) * p.per_worker) {}
  Line(const Call& call, const Constants& c, const Plan& p, std::byte* scratch) : call_(call), c_(c), p_(p), taps_(p.taps, reinterpret_cast<WindowTap*>(scratch)) {
    sums_ = reinterpret_cast<float*>(scratch + p.tap_bytes);
    repeated_ = reinterpret_cast<float*>(scratch + p.tap_bytes + p.line_bytes);
    body_ = scratch + p.tap_bytes + p.line_bytes + p.repeated_bytes;
    if (p.together > 1) repeat_rows();
  }

  // One segment of a line.
  void run(int64_t unit) {
    const int64_t segment = unit % p_.segments;
    int64_t line = unit / p_.segments;
    begin_ = p_.width * segment / p_.segments;
    end_ = p_.width * (segment + 1) / p_.segments;
    const size_t kept = c_.args.kept;
    IndexMap::Position start = p_.map.start;
    int64_t b = 0;
    for (size_t i = kept - 2; i-- > 0; line /= p_.map.indices[i].extent) {
      at_[i] = line % p_.map.indices[i].extent;
      start.move(p_.map.indices[i], at_[i], p_.map.axes);
      b += at_[i] * p_.b_strides[i];
    }
    at_[kept - 2] = at_[kept - 1] = 0;
    if (p_.direct) {
      const auto to = static_cast<size_t>(c_.body->stores[0].operand);
      auto row = [&](int operand) { return operand >= 0 ? floats(static_cast<size_t>(operand)) : nullptr; };
      SumEnd end;
      end.set(p_.simple, p_.simple.slope_operand < 0 ? nullptr : call_.operands[body_operand(static_cast<size_t>(p_.simple.slope_operand))].data);
      end.scale = p_.together > 1 && p_.simple.scale >= 0 ? repeated_ : row(p_.simple.scale);
      end.bias = p_.together > 1 && p_.simple.bias >= 0 ? repeated_ + p_.together * p_.channels : row(p_.simple.bias);
      end.residual = row(p_.simple.residual);
      VectorEnd program;
      if (p_.program) {
        program = vector_end(*p_.program, p_.bound, body_operands(call_.operands), at_, p_.channels);
        end.program = &program;
      }
      if (p_.simple.residual >= 0) end.residual_step = p_.bound.strides[static_cast<size_t>(p_.simple.residual)][kept - 2];
      return sums(start, b, end, const_cast<float*>(floats(to)), p_.bound.strides[to][kept - 2]);
    }
    sums(start, b, {}, sums_, p_.channels);
    Evaluator evaluator(p_.bound, body_operands(call_.operands), body_);
    const auto block = static_cast<int64_t>(p_.bound.block);
    for (int64_t x = begin_; x < end_; ++x) {
      at_[kept - 2] = x;
      for (int64_t n = 0; n < p_.channels; n += block) evaluator.segment(at_, n, std::min(block, p_.channels - n), sums_ + x * p_.channels + n);
    }
  }

 private:
  // An operand of the body at the line's first output.
  const float* floats(size_t operand) const {
    const auto* data = reinterpret_cast<const float*>(call_.operands[body_operand(operand)].data);
    for (size_t i = 0; i + 2 < c_.args.kept; ++i) data += at_[i] * p_.bound.strides[operand][i];
    return data;
  }

  // The scale, the bias and the rows of B, each for all outputs of a vector.
  void repeat_rows() {
    const int64_t count = p_.together * p_.channels;
    float* to = repeated_;
    auto repeat = [&](const float* from) {
      for (int64_t i = 0; i < count && from != nullptr; ++i) to[i] = i < p_.channels ? from[i] : to[i - p_.channels];
      to += count;
    };
    for (const int operand : {p_.simple.scale, p_.simple.bias}) repeat(operand < 0 ? nullptr : floats(static_cast<size_t>(operand)));
    const TensorRef& b = call_.operands[1];
    for (size_t k = 0; k < p_.taps.places(); ++k) {
      int64_t at = 0;
      auto rest = static_cast<int64_t>(k);
      for (size_t i = p_.map.indices.size(); i-- > c_.args.kept; rest /= p_.map.indices[i].extent) {
        if (b.dims[i] > 1) at += rest % p_.map.indices[i].extent * b.strides[i];
      }
      repeat(reinterpret_cast<const float*>(b.data) + at);
    }
  }

  void sums(const IndexMap::Position& start, int64_t b, const SumEnd& end, float* to, int64_t to_step) {
    const DepthwiseConvTiles& tiles = depthwise_conv_tiles();
    const auto* from = reinterpret_cast<const float*>(call_.operands[0].data) + static_cast<int64_t>(start.offset);
    const int64_t adjacent = p_.together;
    const float* with = adjacent > 1 ? repeated_ + 2 * adjacent * p_.channels : reinterpret_cast<const float*>(call_.operands[1].data) + b;
    const IndexMap::Index& across = p_.map.indices[size_t{c_.args.kept} - 2];
    const auto step = static_cast<int64_t>(across.step);
    const int64_t b_step = p_.b_strides[size_t{c_.args.kept} - 2];
    // One block of channels of a line at a time, so that its part of B stays in the first-level cache.
    const int64_t blocks = std::max<int64_t>(1, p_.channels / (4 * tiles.lanes));
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t c0 = p_.channels * i / blocks / tiles.lanes * tiles.lanes, c1 = i + 1 == blocks ? p_.channels : p_.channels * (i + 1) / blocks / tiles.lanes * tiles.lanes;
      for (size_t r = 0; r < p_.taps.runs().size(); ++r) {
        const WindowTaps::Run& run = p_.taps.runs()[r];
        const int64_t begin = std::max(run.begin, begin_), outputs = std::min(run.end, end_) - begin;
        if (outputs <= 0) continue;
        const std::span<const WindowTap> taps = taps_.of(r, start);
        // `count` tiles' outputs of `each` outputs side by side.
        auto compute = [&](int64_t x, int64_t count, int64_t each) {
          SumEnd part = end;
          part.row = x;
          part.column = c0;
          if (end.scale != nullptr) part.scale += c0;
          if (end.bias != nullptr) part.bias += c0;
          if (end.residual != nullptr) part.residual += x * end.residual_step + c0;
          part.residual_step *= each;
          tiles.tile[count](from + x * step + c0, step * each, with + x * b_step + c0, taps.data(), std::ssize(taps), to + x * to_step + c0, to_step * each, (c1 - c0) * each,
                            part);
        };
        const int64_t at_once = b_step == 0 ? DepthwiseConvTiles::outputs : 1, whole = outputs / adjacent, groups = (whole + at_once - 1) / at_once;
        for (int64_t g = 0; g < groups; ++g) {
          const int64_t x0 = whole * g / groups, x1 = whole * (g + 1) / groups;
          compute(begin + x0 * adjacent, x1 - x0, adjacent);
        }
        if (outputs > whole * adjacent) compute(begin + whole * adjacent, 1, outputs - whole * adjacent);
      }
    }
  }

  const Call& call_;
  const Constants& c_;
  const Plan& p_;
  WindowTaps::Lists taps_;
  float *sums_, *repeated_;
  std::byte* body_;
  int64_t begin_ = 0, end_ = 0;  // of the segment
  int64_t at_[16] = {};
};

void run(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const auto& p = *static_cast<const Plan*>(call.prepared);
  if (p.is_empty()) return;
  // Neighbouring lines go to one worker, as they read the same rows of A.
  call.workers->run(p.tasks, [&](int64_t task, int worker) {
    Line work(call, c, p, worker);
    const int64_t units = p.lines * p.segments;
    for (int64_t unit = units * task / p.tasks; unit < units * (task + 1) / p.tasks; ++unit) work.run(unit);
  });
}

}  // namespace

std::span<const RunKernel> depthwise_conv_cpu_kernels() {
  static constexpr RunKernel list[] = {{"depthwise_conv", depthwise::load, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
