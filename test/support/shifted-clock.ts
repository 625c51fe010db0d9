/**
 * A clock that a test sets, for real programs: a small library that Linux loads into them shifts the time of day. The monotonic clock stays.
 * Concord starts the database in a folder that is closed to its account through `setpriv`, for which a script with the same setting stands.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { chmod, mkdir, open, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'

const SOURCE = `#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
static const volatile long long *shift;
static long long seconds(void) {
  if (!shift) {
    const char *name = getenv("SHIFTED_CLOCK");
    int file = name ? open(name, O_RDONLY) : -1;
    void *page = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    static const long long none = 0;
    shift = page == MAP_FAILED ? &none : page;
  }
  return *shift;
}
int clock_gettime(clockid_t id, struct timespec *at) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int end = real(id, at);
  if (end == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += seconds();
  return end;
}
int gettimeofday(struct timeval *at, void *zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
`

export type ShiftedClock = {
  /** The environment of a program that follows the clock. */
  readonly env: Readonly<Record<string, string>>
  /** Sets how many seconds it is ahead of the real one. */
  set(aheadS: number): Promise<void>
}

/** `folder` must be closed to others. Returns undefined where it cannot work: it needs Linux, a C compiler, and root for the database. */
export async function openShiftedClock(folder: string): Promise<ShiftedClock | undefined> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return undefined
  if (spawnSync('cc', ['--version']).status !== 0) return undefined
  const [source, library, shift, bin] = ['clock.c', 'clock.so', 'shift', 'bin'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
    string,
  ]
  await writeFile(source, SOURCE)
  execFileSync('cc', ['-O1', '-shared', '-fPIC', '-o', library, source, '-ldl'])
  const setpriv = execFileSync('sh', ['-c', 'command -v setpriv'], { encoding: 'utf8' }).trim()
  const env = { LD_PRELOAD: library, SHIFTED_CLOCK: shift }
  await mkdir(bin)
  const script = `#!/bin/sh\nexport LD_PRELOAD='${library}' SHIFTED_CLOCK='${shift}'\nexec ${setpriv} "$@"\n`
  await writeFile(join(bin, 'setpriv'), script)
  await chmod(join(bin, 'setpriv'), 0o755)
  const set = async (aheadS: number) => {
    const file = await open(shift, 'r+')
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64LE(BigInt(aheadS))
    await file.write(bytes, 0, 8, 0)
    await file.close()
  }
  await writeFile(shift, Buffer.alloc(8))
  return { env: { ...env, PATH: `${bin}${delimiter}${process.env['PATH'] ?? ''}` }, set }
}
