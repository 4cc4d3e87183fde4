// What depthwise convolutions take, estimated from sizes alone. Groups are the channels, each with one column and a sum of K elements.
#pragma once
#include "backend/cpu/kernels/conv/run/cost.h"
#include "backend/cpu/kernels/depthwise_conv/run/tuning.h"

namespace ingot::kernels::depthwise {

// Nanoseconds with vectors along channels. `copies`: the image and the result are copied into and out of the order in which channels are neighbours.
inline double cost_of_channels(const conv::ConvSizes& s, bool copies, const conv::Cpu& cpu) {
  const auto vectors = static_cast<double>((s.groups + cpu.lanes - 1) / cpu.lanes), results = s.outputs * static_cast<double>(s.groups);
  const double products = cpu.vectors(s.outputs * vectors * static_cast<double>(s.k) * tuning::of_channels) / static_cast<double>(cpu.threads);
  if (!copies) return products;
  const double of_image = tuning::copied_image + (s.groups < cpu.lanes ? tuning::copied_narrow_channels : 0);
  return products + cpu.cycles(s.image * of_image + results * tuning::copied_result) / static_cast<double>(cpu.threads) + 2 * cpu.machine.launch;
}

// With vectors along lines of this many outputs. Lines whose windows leave the image, or with steps, are copied first.
inline double cost_of_lines(const conv::ConvSizes& s, int64_t length, const conv::Cpu& cpu) {
  const auto outputs = static_cast<double>(length), vectors = s.outputs / outputs * static_cast<double>((length + cpu.lanes - 1) / cpu.lanes * s.groups);
  const tuning::Copy copy = s.step > 1 ? tuning::copy_of_steps : s.inside < 1 ? tuning::copy_of_line : tuning::Copy{0, 0};
  const double lines = s.image / (outputs * static_cast<double>(s.step));
  return (cpu.vectors(vectors * (static_cast<double>(s.k) * tuning::of_lines + tuning::vector_of_line)) + cpu.cycles(s.image * copy.element + lines * copy.run)) /
         static_cast<double>(cpu.threads);
}

}  // namespace ingot::kernels::depthwise
