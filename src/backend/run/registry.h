// The run-time half of a backend: the devices it has.
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
  // The number of a device from its name ("cuda:1"); nullopt if the name belongs to another backend.
  std::optional<int> (*find)(std::string_view name);
  // The target to compile for to use this device. Error (device) if there is no such device.
  Target (*target)(int number);
  // `code` and `timings`: the plan's, for that target. The device uses the fastest choices that `timings` has for its model. Error (device) without a driver or a
  // device, (invalid_input) if there is no device of this number, (version) if the code is newer than the driver.
  std::shared_ptr<const Backend> (*open)(int number, std::span<const CodeImage> code, std::span<const Timing> timings);
  // What the devices need on the machine. The first library is the driver: without it `describe` is not called.
  std::span<const DeviceLibrary> libraries = {};
  std::vector<DeviceDescription> (*describe)() = nullptr;
};

// In the order in which "auto" tries them: it takes the first one for which a plan has a program.
std::span<const Devices* const> all_devices();

// A parsed device name; null `devices` if no backend knows it.
struct DeviceName {
  const Devices* devices = nullptr;
  int number = 0;
};
DeviceName find_device(std::string_view name);

}  // namespace ingot::backend
