#include "backend/cuda/kernels/windows.h"

#include <algorithm>
#include <set>

#include "backend/cuda/kernels/known_code.h"
#include "backend/cuda/kernels/windows.cuh.h"

namespace ingot::backend::cuda {

using Axis = ir::AffineMap::Axis;
using ir::Dim;

std::string_view windows_text() { return windows_cuh; }

int64_t coefficient(const Axis& axis, size_t index) {
  for (const ir::AffineMap::Term& t : axis.terms) {
    if (t.axis == index) return t.coefficient;
  }
  return 0;
}

bool stays_inside(const ir::AffineMap& map, const StridedLayout& a, size_t j) {
  const Axis& axis = map.axes[j];
  if (!axis.offset.is_constant() || axis.offset.value() < 0) return false;
  Dim left = a.dims[j] - Dim(1) - axis.offset;
  for (const ir::AffineMap::Term& t : axis.terms) left = left - Dim(t.coefficient) * (map.dims[t.axis] - Dim(1));
  return left.constant().value_or(-1) >= 0;
}

std::optional<WindowLine> find_line(const ir::AffineMap& map, size_t kept) {
  const size_t across = kept - 2;
  WindowLine line;
  for (size_t j = 0; j < map.axes.size(); ++j) {
    if (coefficient(map.axes[j], across) == 0) continue;
    if (line.axis != WindowLine::none) return std::nullopt;
    line.axis = j;
    for (const ir::AffineMap::Term& t : map.axes[j].terms) {
      if (t.axis == across) {
        line.step = t.coefficient;
      } else if (t.axis < kept || line.tap != WindowLine::none) {
        return std::nullopt;
      } else {
        line.tap = t.axis;
        line.tap_step = t.coefficient;
      }
    }
  }
  for (size_t j = 0; j < map.axes.size() && line.tap != WindowLine::none; ++j) {
    if (j != line.axis && coefficient(map.axes[j], line.tap) != 0) return std::nullopt;
  }
  return line;
}

std::vector<int64_t> places_of(const WindowLine& line, int64_t outputs, int64_t taps) {
  std::vector<int64_t> out;
  for (int64_t t = 0; t < outputs; ++t) {
    for (int64_t k = 0; k < taps; ++k) out.push_back(t * line.step + k * line.tap_step);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void take_map(const ir::AffineMap& map, size_t kept, const StridedLayout& a, const FusedBody& body, kernels::WindowArgs& args, std::vector<Dim>& sizes) {
  args.steps = *map_steps(map, sizes);
  args.rank = static_cast<uint8_t>(map.axes.size());
  args.kept = static_cast<uint8_t>(kept);
  args.summed = static_cast<uint8_t>(map.dims.size() - kept);
  args.stores = static_cast<uint8_t>(body.stores.size());
  for (size_t j = 0; j < map.axes.size(); ++j) {
    if (stays_inside(map, a, j)) args.unguarded.push_back(static_cast<uint8_t>(j));
  }
}

void finish_windows(PrintedKernels& printed, const ElementText& text, size_t pointers, kernels::WindowArgs& args, std::vector<Dim>& sizes) {
  printed.shared = fmt::format("struct @P {{ u64 status; void* pointer[{}]; i64 number[{}]; }};\n", pointers, std::max<size_t>(1, text.numbers().size()));
  sizes.insert(sizes.end(), text.sizes().begin(), text.sizes().end());
  args.sizes = static_cast<uint32_t>(sizes.size());
  args.numbers = text.numbers();
  args.known = text.known();
}

EmittedStep step_of_used(const WindowKernel& kernel, const std::function<EmittedStep(const std::vector<int>&)>& print, const Site& site) {
  EmittedStep step = print({0, 1});
  KnownCall known;
  bool is_known = known.add(step.sizes);
  for (const Operand& o : site.operands) is_known = is_known && known.add(o.layout, o.type);
  if (!is_known) return step;
  std::set<std::string> used;
  const auto args = kernel.load(step.constants, site.operands.size(), step.sizes.size());
  add_kernels(kernel.launches(known.call(args.get()), {}), site, used);
  if (used.size() != 1) return step;
  return print({used.contains(step.code[0].kernels[0]) ? 0 : 1});
}

}  // namespace ingot::backend::cuda
