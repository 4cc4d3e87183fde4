// A backend's half of the runtime: the devices it has.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "backend/run/device.h"
#include "base/target.h"

namespace ingot::backend {

struct Devices {
  Target::Kind kind;           // of the programs that run there
  std::string_view name;       // "the CPU": in messages
  bool native;                 // programs need device code of their plan
  // The number of the device of this name ("cuda:1"); nullopt where the name is not of this backend.
  std::optional<int> (*find)(std::string_view name);
  // What programs for the device are compiled for. Error (device) without the device.
  Target (*target)(int number);
  // `code` and `timings` are the plan's, for that target.
  std::shared_ptr<const Backend> (*open)(int number, std::span<const CodeImage> code, std::span<const Timing> timings);
};

// In the order in which "auto" tries them: the first one that a plan has a program for.
std::span<const Devices* const> all_devices();

// The device of this name; no devices where there is none.
struct DeviceName {
  const Devices* devices = nullptr;
  int number = 0;
};
DeviceName find_device(std::string_view name);

}  // namespace ingot::backend
