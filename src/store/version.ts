/** The Postgres versions that Concord supports. */
import { accept, type Decision, refuse } from '#kernel/refusal'

/** The oldest major version whose SQL we use, and the newest that our tests run on. */
const supportedVersions = { min: 16, max: 18 } as const

/** `server_version_num`: 180004 is 18.4. */
export function decideServerVersion(versionNum: number): Decision<number> {
  const major = Math.floor(versionNum / 10_000)
  if (major >= supportedVersions.min && major <= supportedVersions.max) return accept(major)
  const found = `${major}.${versionNum % 10_000}`
  const range = `${supportedVersions.min} to ${supportedVersions.max}`
  return refuse(
    'store.server.version_unsupported',
    `the server is Postgres ${found}; Concord works with Postgres ${range}`,
    {
      path: 'DATABASE_URL',
      hint: major < supportedVersions.min ? 'upgrade the server' : 'upgrade Concord, or use an older server',
      facts: { found, ...supportedVersions },
    },
  )
}
