#include "base/shared_library.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ingot {
namespace {

TEST(SharedLibrary, AMissingOneSaysWhatToDo) {
  static constexpr std::string_view sonames[] = {"libsurely_not_here.so.1"};
  static constexpr LibraryNames names{"the library of this test", sonames, {}, "write it"};
  try {
    SharedLibrary library(names);
    FAIL() << "found";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::device);
    EXPECT_NE(e.message.find("the library of this test was not found on this machine"), std::string::npos) << e.message;
    EXPECT_EQ(e.remedy, "write it");
  }
}

TEST(SharedLibrary, OneThatIsLoadedIsTaken) {
  static constexpr std::string_view sonames[] = {"libsurely_not_here.so.1", "libc.so.6"};
  static constexpr LibraryNames names{"C's library", sonames, {}, ""};
  SharedLibrary library(names);
  int (*number)(const char*) = nullptr;
  library.find(number, "atoi");
  EXPECT_EQ(number("42"), 42);
  try {
    library.find(number, "surely_no_function");
    FAIL() << "found";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::version);
    EXPECT_NE(e.message.find("has no function surely_no_function"), std::string::npos) << e.message;
  }
}

}  // namespace
}  // namespace ingot
