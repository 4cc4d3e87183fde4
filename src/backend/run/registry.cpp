#include "backend/run/registry.h"

namespace ingot::backend {

#define X(name) \
  namespace name { \
  extern const Devices devices; \
  }
#include "backend/run/backends.def"
#undef X

std::span<const Devices* const> all_devices() {
  static constexpr const Devices* list[] = {
#define X(name) &name::devices,
#include "backend/run/backends.def"
#undef X
  };
  return list;
}

DeviceName find_device(std::string_view name) {
  for (const Devices* devices : all_devices()) {
    if (const std::optional<int> number = devices->find(name)) return {devices, *number};
  }
  return {};
}

}  // namespace ingot::backend
