#include <charconv>

#include "backend/run/registry.h"

namespace ingot::backend::cuda {

namespace {

// "cuda" is device 0.
std::optional<int> find(std::string_view name) {
  if (name == "cuda") return 0;
  if (!name.starts_with("cuda:")) return std::nullopt;
  int number = 0;
  const char* last = name.data() + name.size();
  auto [end, error] = std::from_chars(name.data() + 5, last, number);
  return error == std::errc() && end == last && number >= 0 ? std::optional(number) : std::nullopt;
}

}  // namespace

extern const Devices devices;
const Devices devices{Target::Kind::cuda, "this GPU", true, find, [](int number) { return cuda_target(cuda_architecture(number)); }, open_cuda};

}  // namespace ingot::backend::cuda
