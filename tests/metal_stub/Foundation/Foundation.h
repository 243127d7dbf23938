// SPDX-License-Identifier: Apache-2.0
// Our declarations of what emitted host text uses of Foundation: for checks of its syntax, and for
// tests/metal_host/framework.mm, which runs it.
#pragma once

typedef unsigned long NSUInteger;
typedef long NSInteger;
typedef signed char BOOL;
#define nil ((id)0)
#define YES ((BOOL)1)
#define NO ((BOOL)0)

@protocol NSObject
@end
__attribute__((objc_root_class))
@interface NSObject<NSObject> {
  Class isa;
 @public
  void* held;  // of framework.mm
}
+ (instancetype)alloc;
- (instancetype)init;
@end

enum { NSUTF8StringEncoding = 4 };
@class NSError;
@interface NSString : NSObject
+ (instancetype)stringWithUTF8String:(const char*)text;
+ (instancetype)stringWithContentsOfFile:(NSString*)path encoding:(NSUInteger)encoding error:(NSError**)error;
- (const char*)UTF8String;
@end
@interface NSError : NSObject
+ (NSError*)errorWithText:(const char*)text code:(NSInteger)code;  // ours
- (NSString*)localizedDescription;
- (NSInteger)code;
@end
@interface NSURL : NSObject
+ (NSURL*)fileURLWithPath:(NSString*)path;
@end
@interface NSFileManager : NSObject
+ (NSFileManager*)defaultManager;
- (BOOL)fileExistsAtPath:(NSString*)path;
@end
@interface NSMutableDictionary : NSObject
- (id)objectForKey:(id)key;
- (void)setObject:(id)object forKey:(id)key;
@end
