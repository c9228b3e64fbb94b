#include "attention/workspace.h"

#include <gtest/gtest.h>

namespace headproof {
namespace {

TEST(Workspace, CountsTheMostThatIsInUseAtOnceSinceTheReset) {
  constexpr std::size_t kibibyte = 1024;
  const Workspace before(64 * kibibyte);
  reset_workspace_peak();
  EXPECT_EQ(workspace_peak_bytes(), 0U);
  {
    const Workspace outer(8 * kibibyte);
    { const Workspace inner(16 * kibibyte); }
    { const Workspace inner(4 * kibibyte); }
  }
  EXPECT_EQ(workspace_peak_bytes(), 24 * kibibyte);
  { const Workspace again(16 * kibibyte); }
  EXPECT_EQ(workspace_peak_bytes(), 24 * kibibyte);
  reset_workspace_peak();
  EXPECT_EQ(workspace_peak_bytes(), 0U);
}

}  // namespace
}  // namespace headproof
