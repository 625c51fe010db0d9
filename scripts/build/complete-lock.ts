/**
 * Adds the optional packages of other platforms to a lock file. npm drops an optional package that it cannot download, and then
 * `npm ci` refuses the lock file, because every listed package must be locked.
 */
export type Locked = {
  version?: string
  resolved?: string
  integrity?: string
  link?: boolean
  hasInstallScript?: boolean
  dev?: boolean
  optional?: boolean
  os?: string[]
  cpu?: string[]
  libc?: string[]
  optionalDependencies?: Record<string, string>
}
export type Lock = { packages: Record<string, Locked> }

const systems = ['android', 'darwin', 'freebsd', 'openharmony', 'win32', 'linux'] as const
const processors = ['arm64', 'x64', 'ia32', 'ppc64', 'riscv64', 's390x', 'arm'] as const

export type Unlocked = { readonly name: string; readonly version: string; readonly of: string; readonly dev: boolean }

export function findUnlocked({ packages }: Lock): Unlocked[] {
  const places = Object.keys(packages)
  return Object.entries(packages).flatMap(([place, locked]) =>
    Object.entries(locked.optionalDependencies ?? {})
      .filter(([name]) => !places.some((each) => each.endsWith(`node_modules/${name}`)))
      .map(([name, version]) => ({
        name,
        version,
        of: place.replace(/^.*node_modules\//, ''),
        dev: locked.dev === true,
      })),
  )
}

/** The name of such a package contains its platform; a package without one is skipped. */
export function completeLock(lock: Lock): Lock {
  const added = findUnlocked(lock).map(({ name, version, dev }): [string, Locked] => {
    const os = systems.find((system) => name.includes(system) || (system === 'win32' && name.includes('windows')))
    const cpu = processors.find((processor) => name.includes(processor))
    if (os === undefined || cpu === undefined) throw new Error(`${name} is not locked and does not say its platform`)
    const libc = name.includes('musl') ? { libc: ['musl'] } : os === 'linux' ? { libc: ['glibc'] } : {}
    return [`node_modules/${name}`, { version, cpu: [cpu], ...(dev ? { dev } : {}), ...libc, optional: true, os: [os] }]
  })
  const sorted = [...Object.entries(lock.packages), ...added].toSorted(([a], [b]) => (a < b ? -1 : 1))
  return { ...lock, packages: Object.fromEntries(sorted) }
}
