// The "depthwise_conv" kernel: sums over windows, vectors along the channels.
//
// A line is what the index before the channels runs over. Its outputs form runs that see the same part of their windows; within a run, several outputs
// at a time share what they read of B. The sums start from the bias where the body does no more than add it; else they go through the body row by row.
#include <algorithm>

#include "backend/cpu/kernels/depthwise_conv/run/tile.h"
#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/run/isa.h"
#include "base/error.h"
#include "kernels/depthwise_conv/run/depthwise_conv_args.h"
#include "kernels/run/index_map.h"

namespace ingot::kernels {

const DepthwiseConvTiles& depthwise_conv_tiles() {
  switch (backend::cpu::isa()) {
    case backend::cpu::Isa::amx_bf16:
    case backend::cpu::Isa::avx512_bf16:
    case backend::cpu::Isa::avx512: return depthwise_conv_tiles_avx512;
    case backend::cpu::Isa::avx2: return depthwise_conv_tiles_avx2;
    default: return depthwise_conv_tiles_portable;
  }
}

namespace {

using ir::DType;

struct Constants {
  DepthwiseConvArgs args;  // without its body
  std::shared_ptr<const Program> body;
  size_t map_sizes() const { return size_t{args.rank} + args.kept + args.summed; }
};

std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes) {
  auto c = std::make_shared<Constants>();
  c->args = parse_depthwise_conv(bytes);
  if (operands < 3 || sizes < c->map_sizes()) fail(Code::format, "a depthwise_conv step has {} operands and {} sizes", operands, sizes);
  c->body = load_program(c->args.body, operands - 2, sizes - c->map_sizes());
  c->args.body = {};
  const Program& p = *c->body;
  const bool fits = p.domain_rank == c->args.kept && p.row_rank == 1 && !p.has_reductions && (!p.has_accumulator || p.accumulator == Class::f32);
  if (!fits) fail(Code::format, "a depthwise_conv step's body has another domain");
  return c;
}

// What is summed for one step of each summed index, and where that is along the axes of A that can be left.
struct Place {
  Tap tap;
  int64_t along[IndexMap::most] = {};
};

// Outputs of a line that see the same part of their windows, as far as the line's own index decides.
struct Run {
  int64_t begin, end;
  std::vector<uint32_t> places;
};

struct Plan {
  Bound bound;
  IndexMap map;
  std::vector<int64_t> b_strides;
  std::vector<Place> places;
  std::vector<Run> runs;
  bool across[IndexMap::most] = {};  // axes along which the line's index moves; along the others, the indices before it
  int64_t lines = 1, width, channels, tasks;
  bool direct = false;               // tiles write the result themselves
  int bias = -1;
  size_t tap_bytes, line_bytes, per_worker;
};

size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

bool inside(const Plan& p, int b, int64_t at) { return at >= 0 && at < p.map.size[b]; }

void find_places(Plan& p, std::span<const IndexMap::Index> summed, std::span<const int64_t> b_strides) {
  int64_t count = 1;
  for (const IndexMap::Index& i : summed) {
    if (i.extent > 0 && count > DepthwiseConvArgs::max_summed / i.extent) fail(Code::format, "depthwise_conv: too much is summed");
    count *= i.extent;
  }
  for (int64_t k = 0; k < count; ++k) {
    Place place;
    IndexMap::Position at;
    int64_t rest = k;
    place.tap.b = 0;
    for (size_t i = summed.size(); i-- > 0; rest /= summed[i].extent) {
      at.move(summed[i], rest % summed[i].extent, p.map.axes);
      place.tap.b += rest % summed[i].extent * b_strides[i];
    }
    place.tap.a = static_cast<int64_t>(at.offset);
    std::copy(at.along, at.along + p.map.axes, place.along);
    p.places.push_back(place);
  }
}

void find_runs(Plan& p, const IndexMap::Index& across) {
  for (int64_t x = 0; x < p.width; ++x) {
    std::vector<uint32_t> seen;
    for (uint32_t k = 0; k < p.places.size(); ++k) {
      bool in = true;
      for (int b = 0; b < p.map.axes; ++b) in = in && (!p.across[b] || inside(p, b, p.map.start.along[b] + x * across.along[b] + p.places[k].along[b]));
      if (in) seen.push_back(k);
    }
    if (p.runs.empty() || p.runs.back().places != seen) p.runs.push_back({x, x, std::move(seen)});
    p.runs.back().end = x + 1;
  }
}

Resolved resolve(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  auto p = std::make_shared<Plan>();
  const TensorRef &a = call.operands[0], &b = call.operands[1];
  const size_t kept = c.args.kept, indices = kept + c.args.summed;
  auto refuse = [](const char* what) { fail(Code::format, "depthwise_conv: {}", what); };
  if (a.dtype != DType::f32 || b.dtype != DType::f32) refuse("the operands are not f32");
  if (a.rank != c.args.rank || b.rank != static_cast<int>(indices)) refuse("the operands do not have their ranks");
  p->map = resolve_index_map("depthwise_conv", c.args.steps, a, call.sizes.first(c.map_sizes()));
  std::vector<int64_t> domain;
  for (size_t i = 0; i < indices; ++i) {
    const int64_t extent = p->map.indices[i].extent;
    if (b.dims[i] != extent && b.dims[i] != 1) refuse("B does not have the sizes of the indices");
    p->b_strides.push_back(b.dims[i] == extent ? b.strides[i] : 0);
    if (i < kept) domain.push_back(extent);
  }
  const IndexMap::Index &across = p->map.indices[kept - 2], &channel = p->map.indices[kept - 1];
  p->width = across.extent;
  p->channels = channel.extent;
  if (channel.extent > 1 && (channel.step != 1 || p->b_strides[kept - 1] != 1)) refuse("channels are not neighbours");
  for (int axis = 0; axis < p->map.axes; ++axis) {
    if (channel.extent > 0 && channel.along[axis] != 0) refuse("channels may lie outside");
    p->across[axis] = across.along[axis] != 0;
    for (size_t i = 0; i + 2 < kept && p->across[axis]; ++i) {
      if (p->map.indices[i].along[axis] != 0) refuse("an axis is left along two indices");
    }
  }
  p->bound = bind_program(c.body, call.operands.subspan(2), call.sizes.subspan(c.map_sizes()), domain, false);
  for (size_t i = 0; i + 2 < kept; ++i) p->lines *= domain[i];
  find_places(*p, std::span(p->map.indices).subspan(kept), std::span(p->b_strides).subspan(kept));
  if (p->channels > 0 && p->lines > 0) find_runs(*p, across);
  const SimpleEpilogue& simple = c.body->simple;
  p->direct = simple.valid && simple.type == DType::f32 && simple.activation == SimpleEpilogue::none && simple.scale < 0 && simple.residual < 0 &&
              p->bound.strides[c.body->stores[0].operand].back() == 1;
  if (p->direct && simple.bias >= 0) {
    const std::vector<int64_t>& strides = p->bound.strides[static_cast<size_t>(simple.bias)];
    p->bias = simple.bias;
    p->direct = strides.back() == 1 && std::all_of(strides.begin(), strides.end() - 1, [](int64_t s) { return s == 0; });
  }
  const int64_t workers = call.workers->count();
  const double work = static_cast<double>(p->lines * p->width) * static_cast<double>(p->channels) * static_cast<double>(p->places.size());
  p->tasks = std::min<int64_t>(p->lines, work < 200000 ? 1 : workers * 4);  // below 10 us a thread is not worth waking
  p->tap_bytes = padded(p->places.size() * sizeof(Tap));
  p->line_bytes = p->direct ? 0 : padded(static_cast<size_t>(p->width * p->channels) * 4);
  p->per_worker = padded(p->tap_bytes + p->line_bytes + p->bound.scratch);
  return {static_cast<size_t>(workers) * p->per_worker, p};
}

class Line {
 public:
  Line(const Call& call, const Constants& c, const Plan& p, int worker) : call_(call), c_(c), p_(p) {
    std::byte* scratch = call.scratch + static_cast<size_t>(worker) * p.per_worker;
    taps_ = reinterpret_cast<Tap*>(scratch);
    sums_ = reinterpret_cast<float*>(scratch + p.tap_bytes);
    body_ = scratch + p.tap_bytes + p.line_bytes;
  }

  void run(int64_t line) {
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
      const float* bias = p_.bias >= 0 ? floats(static_cast<size_t>(p_.bias)) : nullptr;
      return sums(start, b, bias, const_cast<float*>(floats(to)), p_.bound.strides[to][kept - 2]);
    }
    sums(start, b, nullptr, sums_, p_.channels);
    Evaluator evaluator(p_.bound, call_.operands.subspan(2), body_);
    const auto block = static_cast<int64_t>(p_.bound.block);
    for (int64_t x = 0; x < p_.width; ++x) {
      at_[kept - 2] = x;
      for (int64_t n = 0; n < p_.channels; n += block) evaluator.segment(at_, n, std::min(block, p_.channels - n), sums_ + x * p_.channels + n);
    }
  }

 private:
  // An operand of the body at the line's first output.
  const float* floats(size_t operand) const {
    const auto* data = reinterpret_cast<const float*>(call_.operands[2 + operand].data);
    for (size_t i = 0; i + 2 < c_.args.kept; ++i) data += at_[i] * p_.bound.strides[operand][i];
    return data;
  }

  void sums(const IndexMap::Position& start, int64_t b, const float* bias, float* to, int64_t to_step) {
    const DepthwiseConvTiles& tiles = depthwise_conv_tiles();
    const auto* from = reinterpret_cast<const float*>(call_.operands[0].data);
    const auto* with = reinterpret_cast<const float*>(call_.operands[1].data) + b;
    const IndexMap::Index& across = p_.map.indices[size_t{c_.args.kept} - 2];
    const auto step = static_cast<int64_t>(across.step);
    const int64_t b_step = p_.b_strides[size_t{c_.args.kept} - 2];
    // A block of channels of a line at a time: what it needs of B stays in the first-level cache.
    const int64_t blocks = std::max<int64_t>(1, p_.channels / (4 * tiles.lanes));
    for (const Run& run : p_.runs) {
      int64_t count = 0;
      for (uint32_t k : run.places) {
        const Place& place = p_.places[k];
        bool in = true;
        for (int axis = 0; axis < p_.map.axes; ++axis) in = in && (p_.across[axis] || inside(p_, axis, start.along[axis] + place.along[axis]));
        if (in) taps_[count++] = {static_cast<int64_t>(start.offset + across.step * static_cast<uint64_t>(run.begin)) + place.tap.a, place.tap.b + run.begin * b_step};
      }
      const int64_t outputs = run.end - run.begin, most = b_step == 0 ? DepthwiseConvTiles::outputs : 1, groups = (outputs + most - 1) / most;
      for (int64_t i = 0; i < blocks; ++i) {
        const int64_t c0 = p_.channels * i / blocks / tiles.lanes * tiles.lanes, c1 = i + 1 == blocks ? p_.channels : p_.channels * (i + 1) / blocks / tiles.lanes * tiles.lanes;
        for (int64_t g = 0; g < groups; ++g) {
          const int64_t x0 = outputs * g / groups, x1 = outputs * (g + 1) / groups;
          tiles.tile[x1 - x0](from + x0 * step + c0, step, with + x0 * b_step + c0, taps_, count, bias != nullptr ? bias + c0 : nullptr, to + (run.begin + x0) * to_step + c0,
                              to_step, c1 - c0);
        }
      }
    }
  }

  const Call& call_;
  const Constants& c_;
  const Plan& p_;
  Tap* taps_;
  float* sums_;
  std::byte* body_;
  int64_t at_[16] = {};
};

void run(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const auto& p = *static_cast<const Plan*>(call.prepared);
  if (p.lines == 0 || p.width == 0 || p.channels == 0) return;
  // Neighbouring lines go to one worker: they read the same of A.
  call.workers->run(p.tasks, [&](int64_t task, int worker) {
    Line work(call, c, p, worker);
    for (int64_t line = p.lines * task / p.tasks; line < p.lines * (task + 1) / p.tasks; ++line) work.run(line);
  });
}

}  // namespace

std::span<const RunKernel> depthwise_conv_cpu_kernels() {
  static constexpr RunKernel list[] = {{"depthwise_conv", load, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
