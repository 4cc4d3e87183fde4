#include "kernels/depthwise_conv/run/depthwise_conv_args.h"

#include <algorithm>

#include "base/error.h"
#include "base/fields.h"

namespace ingot::kernels {

std::vector<std::byte> serialise(const DepthwiseConvArgs& args) {
  FieldWriter w;
  w.all(uint8_t{1}, args.rank, args.kept, args.summed);
  for (int64_t step : args.steps) w.field(step);
  w.out.insert(w.out.end(), args.body.begin(), args.body.end());
  return std::move(w.out);
}

DepthwiseConvArgs parse_depthwise_conv(std::span<const std::byte> bytes) {
  FieldReader r{bytes, "the arguments of a depthwise_conv step"};
  uint8_t version;
  DepthwiseConvArgs args;
  r.all(version, args.rank, args.kept, args.summed);
  auto possible = [](uint8_t rank, int least) { return rank >= least && rank <= DepthwiseConvArgs::max_rank; };
  bool good = version == 1 && possible(args.rank, 1) && possible(args.kept, 2) && possible(args.summed, 1);
  if (good) {
    args.steps.resize(size_t{args.rank} * (args.kept + args.summed));
    for (int64_t& step : args.steps) r.field(step);
    good = std::all_of(args.steps.begin(), args.steps.end(), [](int64_t step) { return step >= 0 && step <= INT32_MAX; });
  }
  if (!good) fail(Code::format, "the arguments of a depthwise_conv step are damaged");
  args.body = r.in;
  return args;
}

}  // namespace ingot::kernels
