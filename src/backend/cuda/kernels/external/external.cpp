// Registered CUDA C++ or PTX. Its name is a hash of its content, so that a text with a kernel is compiled once.
#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/external/run/external_launches.h"
#include "base/error.h"
#include "base/sha256.h"

namespace ingot::backend::cuda {

namespace {

CodeUnit code_of(const kernels::External& kernel) {
  const kernels::External::Gpu& gpu = *kernel.gpu;
  std::string name = "user_";
  const auto hash = sha256(std::as_bytes(std::span(gpu.text)));
  for (std::byte b : std::span(hash).first(12)) name += fmt::format("{:02x}", static_cast<unsigned>(b));
  name += ":" + gpu.entry;
  constexpr CodeUnit::From from[] = {CodeUnit::From::user_source, CodeUnit::From::user_portable, CodeUnit::From::user_machine};
  return {name, gpu.text, {name}, {}, from[static_cast<size_t>(gpu.form)], kernel.name};
}

EmittedStep emit(const External& site) {
  const kernels::External::Gpu& gpu = *site.kernel->gpu;
  std::vector<ir::Dim> sizes;
  kernels::ExternalArgs args = external_args(site, sizes);
  const size_t parameters = args.inputs.size() + args.numbers.size() + gpu.sizes.size() + args.results;
  if (parameters > kernels::launch_tuning::max_parameters)
    fail(Code::unsupported, "kernel {} has {} parameters, and {} are possible", args.name, parameters, kernels::launch_tuning::max_parameters);
  CodeUnit code = code_of(*site.kernel);
  args.entry = code.name;
  for (size_t d = 0; d < 3; ++d) args.block[d] = static_cast<uint32_t>(gpu.block[d]);
  args.number_bytes = static_cast<uint8_t>(gpu.number_bytes);
  sizes.insert(sizes.end(), gpu.grid.begin(), gpu.grid.end());
  sizes.push_back(gpu.shared);
  sizes.insert(sizes.end(), gpu.sizes.begin(), gpu.sizes.end());
  return {"external", serialise(args), std::move(sizes), {std::move(code)}};
}

}  // namespace

void external_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  const auto* external = std::get_if<External>(&site.kernel);
  if (external == nullptr) return;
  if (!external->kernel->gpu) {
    out.refusals.push_back({"user's code", Obstacle::types, "kernel " + external->kernel->name + " is registered without code for a GPU"});
    return;
  }
  constexpr const char* names[] = {"user's CUDA", "user's PTX", "user's cubin"};
  out.offers.push_back({.implementation = names[static_cast<size_t>(external->kernel->gpu->form)], .emit = [external] { return emit(*external); }});
}

}  // namespace ingot::backend::cuda
