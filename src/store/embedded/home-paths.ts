/** Where everything of one embedded server lies inside its home: one name, one place. */
import path from 'node:path'

export type HomePaths = {
  readonly home: string
  /** The data directory of Postgres; made elsewhere and renamed here when complete. */
  readonly dataDir: string
  /** The superuser's password, mode 600, readable by the owner of the home alone. */
  readonly passwordFile: string
  /** The password of the login that the service uses, kept in the same way. */
  readonly servicePasswordFile: string
  /** Port and machine of the last start. */
  readonly lastStartFile: string
  readonly logFile: string
  /** Held exclusively while a server is started, adopted or stopped. */
  readonly turnFile: string
  /** Held shared by every process that uses the server. */
  readonly usersFile: string
}

/** A data directory (or its one-time password copy) that is still being made; whatever carries this name is left over after a crash. */
export const UNFINISHED_PREFIX = 'postgres.making-'

export function homePaths(home: string): HomePaths {
  const root = path.resolve(home)
  const inHome = (name: string) => path.join(root, name)
  return {
    home: root,
    dataDir: inHome('postgres'),
    passwordFile: inHome('postgres.password'),
    servicePasswordFile: inHome('postgres.service-password'),
    lastStartFile: inHome('postgres.last-start.json'),
    logFile: inHome('postgres.log'),
    turnFile: inHome('postgres.turn'),
    usersFile: inHome('postgres.users'),
  }
}
