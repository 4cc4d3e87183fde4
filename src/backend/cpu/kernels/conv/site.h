// What the offers of the convolution family share: a GEMM site as they read it, and the step that all of them make.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "backend/cpu/compile/offers.h"
#include "backend/cpu/kernels/conv/run/cost.h"

namespace ingot::backend::cpu {

struct ConvSite {
  Gemm gemm;                           // with a map, if need be the one that its strides are
  const FusedBody* body;
  size_t group_axis = SIZE_MAX;        // the batch axis along which B differs; SIZE_MAX: none does
  bool is_product = false;             // no convolution, and B is one matrix
  // At the usual values of open sizes.
  kernels::IndexMap map;
  kernels::conv::ConvSizes sizes;
  std::optional<kernels::IndexMap> after_copy = std::nullopt;  // the map of an image that compile copies so that its channels are neighbours, where they are not
  int64_t outputs() const { return static_cast<int64_t>(sizes.outputs) * sizes.groups * sizes.n; }
};

// What costs are for: what a plan holds does not depend on the threads that run it.
inline kernels::conv::Cpu cpu_of(const Settings& s) { return {s.machine, static_cast<int64_t>(s.machine.lanes), 1}; }

// nullptr: the site is of another kind, a sketch, or a GEMM that is not a convolution and matmul's. `obstacle`: what keeps the family from a site that
// it would take otherwise; the pointer is null then too. All but conv_rows are for float32.
std::shared_ptr<const ConvSite> conv_site(const Site&, const Settings&, std::optional<std::string>* obstacle = nullptr);
// The same for a convolution of bfloat16 or float64.
std::shared_ptr<const ConvSite> other_conv_site(const Site&, const Settings&, std::optional<std::string>* obstacle = nullptr);

// Of a plain product: true, and the kernel is refused for its cost, if it gains less over matmul than times vary by. A step of matmul serves all sizes. Where timing decides, it is offered.
bool leaves_to_matmul(std::string_view kernel, double nanoseconds, const ConvSite&, const Settings&, Offers&);

// An offer of the kernel, which computes each result once: `once`.
Offer conv_offer(std::string_view kernel, std::shared_ptr<const ConvSite>, double nanoseconds, bool once);

}  // namespace ingot::backend::cpu
