// Catches exceptions at the C boundary: they become statuses and this thread's last error.
#pragma once
#include <new>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "ingot/ingot.h"

namespace ingot::api {

ingot_status remember(Code code, std::string message, std::string origin, std::string remedy) noexcept;
ingot_status remember_out_of_memory() noexcept;

template <class F>
ingot_status guard(F fn) noexcept {
  try {
    fn();
    return INGOT_OK;
  } catch (Error& e) {
    return remember(e.code, std::move(e.message), std::move(e.origin), std::move(e.remedy));
  } catch (const std::bad_alloc&) {
    return remember_out_of_memory();
  } catch (const std::exception& e) {
    try {
      return remember(Code::internal, e.what(), {}, {});
    } catch (...) {
      return remember_out_of_memory();
    }
  }
}

template <class T>
T& required(T* pointer, const char* name) {
  if (pointer == nullptr) fail(Code::invalid_input, "argument {} is NULL", name);
  return *pointer;
}

// `count` texts of the caller.
inline std::vector<std::string> texts(const char* const* from, size_t count, const char* name) {
  std::vector<std::string> out;
  for (const char* text : std::span(count > 0 ? &required(from, name) : nullptr, count)) out.emplace_back(&required(text, name));
  return out;
}

// A copy of the text, which C code frees by ingot_string_release.
char* give_text(const std::string& text);

}  // namespace ingot::api
