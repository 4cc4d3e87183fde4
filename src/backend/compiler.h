// A backend's half of compile: offers for sites, and device code.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "backend/offer.h"
#include "backend/settings.h"

namespace ingot::backend {

// Compiled device code.
struct DeviceCode {
  bool portable = false;             // the driver translates it for its device; else machine code
  int architecture = 0;
  std::vector<std::string> kernels;
  std::vector<std::byte> image;
};

// The compile-time half of a backend. All functions are pure. A backend is one line of run/backends.def.
struct Compiler {
  // Error (unsupported) if the target cannot do what the settings demand.
  void (*check)(const Target&, const Settings&);
  Offers (*offers)(const Site&, const Target&, const Settings&);
  std::vector<DeviceCode> (*compile)(std::span<const CodeUnit>, const Target&);
};
const Compiler& compiler_for(const Target&);

}  // namespace ingot::backend
