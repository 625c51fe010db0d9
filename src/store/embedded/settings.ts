/** The settings of the embedded server: what the data directory is born with, and what every start insists on. */
import { LOOPBACK } from './port.ts'

export type Settings = Readonly<Record<string, string>>

const MB = 1024 * 1024

/** An eighth of the memory, between 128 and 512 MB: Concord shares the machine with the work that it runs. */
export function sharedBuffersMb(memoryBytes: number): number {
  return Math.min(512, Math.max(128, Math.floor(memoryBytes / MB / 8)))
}

/** Written into postgresql.conf by initdb, so that the owner of the home may edit them there. */
export function birthSettings(memoryBytes: number): Settings {
  return {
    shared_buffers: `${sharedBuffersMb(memoryBytes)}MB`,
    // A process takes up to 35: a server and several workers must fit.
    max_connections: '300',
    wal_compression: 'pglz',
    max_wal_size: '1GB',
    // A forgotten transaction would hold back vacuum and every event feed; each pool sets a shorter limit of its own.
    idle_in_transaction_session_timeout: '60s',
    password_encryption: 'scram-sha-256',
    timezone: 'UTC',
    log_timezone: 'UTC',
    log_line_prefix: '%m [%p] %a ',
    log_checkpoints: 'off',
    log_min_duration_statement: '1s',
    // Values in statements may be secrets; the error alone is enough to find the place.
    log_min_error_statement: 'panic',
    log_parameter_max_length: '0',
  }
}

/** Given on the command line, which wins over every file: where the server listens, and that it keeps its word. */
export function startSettings(port: number, unsafeForTests: boolean): Settings {
  const safe = unsafeForTests ? 'off' : 'on'
  return {
    listen_addresses: LOOPBACK,
    port: String(port),
    unix_socket_directories: '',
    logging_collector: 'off',
    log_destination: 'stderr',
    fsync: safe,
    full_page_writes: safe,
    synchronous_commit: safe,
    ...(unsafeForTests ? { max_connections: '300' } : {}),
  }
}

export function asFlags(flag: string, settings: Settings): string[] {
  return Object.entries(settings).flatMap(([name, value]) => [flag, `${name}=${value}`])
}
