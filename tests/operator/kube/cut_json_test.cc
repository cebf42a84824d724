#include "operator/kube/cut_json.h"

#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

std::string Cut(std::string_view text) {
  return CutJson(text, {"env", "volumes"}, 10);
}

TEST(CutJsonTest, TakesOutManagedFieldsOfMetadataAndNamedArrays) {
  EXPECT_EQ(Cut(R"({"metadata":{"managedFields":[{"f:a":{}}],"name":"n"},"env":[1,[2]],"x":1})"),
            R"({"metadata":{"managedFields":0,"name":"n"},"env":0,"x":1})");
  EXPECT_EQ(Cut(R"({ "items" : [ { "volumes" : [ ] } , { "env" : [ {} ] } ] })"),
            R"({ "items" : [ { "volumes" : 0 } , { "env" : 0 } ] })");
}

TEST(CutJsonTest, LeavesWhatOnlyLooksLikeIt) {
  for (const char* text : {
           R"({"env":"[1]","volumes":{"a":[1]},"x":["env",[1]]})",  // no array; no name
           R"({"spec":{"managedFields":[1]}})",                     // not of metadata
           R"({"metadata":{"labels":{"managedFields":"[1]"}}})",    // a user's label
           R"({"note":"\"env\":[1]","metadata":{"name":"\\"}})",    // inside a string
           R"(["metadata",{"managedFields":[1]}])",                 // "metadata" is no name here
           "",
           "7",
           "\"env\":[1]",
       }) {
    EXPECT_EQ(Cut(text), "") << text;
  }
}

TEST(CutJsonTest, BracketsAndQuotesInStringsDoNotCount) {
  EXPECT_EQ(Cut(R"({"env":["]","\"]","\\"],"b":2})"), R"({"env":0,"b":2})");
  EXPECT_EQ(Cut(R"({"a":"}\\","env":[1]})"), R"({"a":"}\\","env":0})");
}

TEST(CutJsonTest, WhatBreaksOffOrNestsTooDeepIsLeftToTheReader) {
  for (const char* text : {R"({"env":[1)", R"({"env":["a)", R"({"env":)", R"({"env")", R"({"en)",
                           R"(}{"env":[1]})", R"({"env":[[[[[[[[[[1]]]]]]]]]]})"}) {
    EXPECT_EQ(Cut(text), "") << text;
  }
  EXPECT_EQ(Cut(R"({"env":[[[[[[[[[1]]]]]]]]]})"), R"({"env":0})");
}

}  // namespace
}  // namespace lockstep::kube
