#include "backend/cuda/kernels/concurrent/run/concurrent_launches.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cuda/kernels/concurrent/run/concurrent_args.h"
#include "backend/cuda/kernels/concurrent/run/part_launches.h"
#include "backend/cuda/run/hardware.h"
#include "backend/cuda/run/launch.h"
#include "base/error.h"

namespace ingot::kernels {

#define X(name)
#define JOINED(name) extern const PartLaunches name##_part;
#include "backend/cuda/run/kernels.def"
#undef X

namespace {

// The kernels whose steps can be parts, by RunKernel::name.
const PartLaunches* find_parts(std::string_view kernel) {
  static constexpr std::pair<std::string_view, const PartLaunches*> all[] = {
#define X(name)
#define JOINED(name) {#name, &name##_part},
#include "backend/cuda/run/kernels.def"
#undef X
  };
  const auto found = std::find_if(std::begin(all), std::end(all), [&](const auto& x) { return x.first == kernel; });
  return found == std::end(all) ? nullptr : found->second;
}

struct Loaded {
  ConcurrentArgs args;
  const PartLaunches* parts = nullptr;  // of the kernel
  std::vector<std::shared_ptr<const void>> constants;  // of each step
};

// The call of one of the steps.
struct OneCall {
  std::vector<size_t> of_whole;  // the operand of the whole step, by the own one
  std::vector<TensorRef> operands;
  Call call;  // refers to `operands`
};

std::vector<OneCall> calls_of(const Loaded& loaded, const Call& call) {
  std::vector<OneCall> out(loaded.args.steps.size());
  size_t read = 0, written = 0, size = 0;  // where the step's operands and sizes begin
  for (const ConcurrentArgs::Step& s : loaded.args.steps) written += s.operands - size_t{s.writes};
  for (size_t k = 0; k < out.size(); ++k) {
    const ConcurrentArgs::Step& s = loaded.args.steps[k];
    OneCall& one = out[k];
    for (size_t o = 0; o < s.operands; ++o) {
      one.of_whole.push_back(o + s.writes < s.operands ? read++ : written++);
      one.operands.push_back(call.operands[one.of_whole.back()]);
    }
    one.call = call;
    one.call.operands = one.operands;
    one.call.sizes = call.sizes.subspan(size, s.sizes);
    one.call.constants = loaded.constants[k].get();
    size += s.sizes;
  }
  return out;
}

// Adds a launch as a row of one in `list` from `first` on that has the same form and room for it, or as the first row of another.
void add_row(std::vector<CudaLaunch>& list, size_t first, CudaLaunch l) {
  const size_t bytes = l.parameters.size(), room = std::max<size_t>(1, backend::cuda::hardware::parameter_bytes / bytes);
  auto fits = [&](const CudaLaunch& row) {
    return row.kernel == l.kernel && (row.blocks == l.blocks || (row.spare && l.spare)) && row.threads == l.threads && row.shared == l.shared && row.blocks_y < room &&
           row.parameters.size() == room * bytes;
  };
  while (first < list.size() && !fits(list[first])) ++first;
  if (first == list.size()) {
    l.parameters.resize(room * bytes);
    list.push_back(std::move(l));
    return;
  }
  CudaLaunch& row = list[first];
  const size_t at = row.blocks_y++ * bytes;
  std::memcpy(row.parameters.data() + at, l.parameters.data(), bytes);
  for (CudaLaunch::Pointer& p : l.pointers) p.at += at, row.pointers.push_back(p);
  for (CudaTiles& t : l.tiles) t.at += at, row.tiles.push_back(t);
  row.work_tiles = std::max(row.work_tiles, row.blocks) + std::max(l.work_tiles, l.blocks);
  row.blocks = std::max(row.blocks, l.blocks);
}

}  // namespace

std::shared_ptr<const void> load_concurrent_cuda(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto out = std::make_shared<Loaded>();
  out->args = parse_concurrent(constants);
  out->parts = find_parts(out->args.kernel);
  if (out->parts == nullptr) fail(Code::format, "the parts of a concurrent step have an unknown kernel");
  std::span<const std::byte> left = out->args.constants;
  for (const ConcurrentArgs::Step& s : out->args.steps) {
    out->constants.push_back(out->parts->load(left.first(s.bytes), s.operands, s.sizes));
    left = left.subspan(s.bytes);
    operands -= s.operands;
    sizes -= s.sizes;
  }
  if (operands != 0 || sizes != 0) fail(Code::format, "a concurrent step has other operands or sizes than its parts");
  return out;
}

CudaLaunches concurrent_cuda_launches(const Call& call, const CudaMachine& machine) {
  const auto& loaded = *static_cast<const Loaded*>(call.constants);
  const ConcurrentArgs& args = loaded.args;
  CudaLaunches out;
  const std::vector<OneCall> calls = calls_of(loaded, call);
  std::vector<Call> plain;
  for (const OneCall& c : calls) plain.push_back(c.call);
  const WantedChoices wanted = loaded.parts->choices == nullptr ? WantedChoices() : loaded.parts->choices(plain, machine);
  const CudaMachine own = wanted.empty() ? CudaMachine{std::max(1, machine.multiprocessors / static_cast<int>(args.steps.size())), machine.tiles, machine.timed}
                                         : CudaMachine{machine.multiprocessors, machine.tiles, &wanted};
  std::vector<CudaLaunches> of_steps;
  size_t longest = 0;
  for (const OneCall& c : calls) {
    auto of_whole = [&](size_t k) { return c.of_whole[k]; };
    CudaLaunches& made = of_steps.emplace_back(loaded.parts->launches(c.call, own));
    if (std::isinf(made.nanoseconds)) {  // a part cannot be computed
      CudaLaunches none;
      none.nanoseconds = made.nanoseconds;
      return none;
    }
    const size_t scratch = out.reserve(static_cast<int64_t>(made.scratch));
    for (std::vector<CudaLaunch>* list : {&made.list, &made.any}) {
      longest = std::max(longest, list->size());
      for (CudaLaunch& l : *list) {
        for (CudaLaunch::Pointer& p : l.pointers) {
          if (p.what == CudaLaunch::Pointer::operand) p.index = of_whole(p.index);
          if (p.what == CudaLaunch::Pointer::scratch) p.offset += scratch;
        }
        for (CudaTiles& t : l.tiles) t.index = of_whole(t.index);
      }
    }
    for (size_t k : made.aligned) out.aligned.push_back(of_whole(k));
  }
  // A step without code for unaligned addresses takes it from all: then none runs there.
  const bool has_any = std::none_of(of_steps.begin(), of_steps.end(), [](const CudaLaunches& s) { return !s.aligned.empty() && !s.list.empty() && s.any.empty(); });
  // The n-th launches of all steps come before the next ones, each of which waits for those of its own step.
  for (size_t n = 0; n < longest; ++n) {
    const size_t usual = out.list.size(), any = out.any.size();
    for (CudaLaunches& made : of_steps) {
      // A step that needs no aligned operand has the same launches for all addresses.
      const std::vector<CudaLaunch>& other = made.aligned.empty() ? made.list : made.any;
      if (has_any && n < other.size() && !out.aligned.empty()) add_row(out.any, any, other[n]);
      if (n < made.list.size()) add_row(out.list, usual, std::move(made.list[n]));
    }
  }
  return out;
}

std::span<const RunKernel> concurrent_cuda_kernels() {
  static constexpr RunKernel list[] = {{"concurrent", load_concurrent_cuda, resolved<concurrent_cuda_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
