// What depthwise convolutions take with vectors along channels, estimated from sizes alone; along lines it is conv::cost_of_lines.
#pragma once
#include "backend/cpu/kernels/conv/run/cost.h"
#include "backend/cpu/kernels/depthwise_conv/run/tuning.h"

namespace ingot::kernels::depthwise {

// Nanoseconds. Groups are the channels, each with one column and a sum of K elements.
inline double cost_of_channels(const conv::ConvSizes& s, const conv::Cpu& cpu) {
  const auto vectors = static_cast<double>((s.groups + cpu.lanes - 1) / cpu.lanes), k = static_cast<double>(s.k);
  return (cpu.vectors(s.outputs * vectors * (k * tuning::of_channels + tuning::vector_of_channels)) + cpu.cycles(s.order_cycles)) / static_cast<double>(cpu.threads);
}

// Of copies of the image and the result into and out of the order in which channels are neighbours.
inline double cycles_of_copies(const conv::ConvSizes& s) { return s.image * tuning::copied_image + s.outputs * static_cast<double>(s.groups) * tuning::copied_result; }

}  // namespace ingot::kernels::depthwise
