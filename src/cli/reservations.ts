/** `concord reservations`: reserves the slot of the local queue; while it is reserved, the queue does not start jobs. */
import process from 'node:process'
import { type DurationMs, formatDuration } from '#kernel/duration'
import { fileVerb, type Jobs, withId, type OnFile } from './jobs-file.ts'
import { mapAnswer, noun, parseTime, parseWhole, table, type When } from './noun.ts'
import { sayTime } from './times.ts'

type ReservationView = ReturnType<Jobs['toReservationView']>

export const reservations = noun('reserve the slot of the local queue, so that no queued job starts', (cli) => ({
  reserve: fileVerb({
    description: 'reserve the slot: running jobs continue, no job starts until it is released or expires',
    options: [
      ['--by <who>', 'who reserves it (default: this process)'],
      ['--for <duration>', 'how long it lasts without a renewal (default: 5m)', parseTime],
      ['--wait <duration>', 'how long to wait while it is reserved (default: not at all)', parseTime, 0],
    ],
    examples: ['concord reservations reserve --by maintenance --for 30m --wait 1m'],
    async ask({ scheduler, jobs }: OnFile, flags: { by?: string; for?: number; wait: number }) {
      const { stop } = cli.terminal
      const body = {
        reserved_by: flags.by ?? `process ${process.pid}`,
        ...(flags.for === undefined ? {} : { expires_in: formatDuration(flags.for as DurationMs) }),
      }
      const made = await jobs.waitForReservation(scheduler, body, { timeoutMs: flags.wait, wait: jobs.realWait, stop })
      return mapAnswer(made, jobs.toReservationView)
    },
    say: ({ reservation_id: id, expires_at }) => [
      `${id}\n`,
      `the queue is paused until ${sayTime(cli.terminal, expires_at)}, or until \`concord reservations release ${id}\`\n`,
    ],
  }),
  'renew <reservation>': fileVerb({
    description: 'extend a reservation; it is never shortened',
    options: [['--for <duration>', 'how long from now (default: 5m)', parseTime]],
    examples: ['concord reservations renew resv_0197… --for 30m'],
    ask: ({ scheduler, jobs }: OnFile, id: string, flags: { for?: number }) =>
      withId('reservation', id, (reservationId) =>
        mapAnswer(jobs.renewReservation(scheduler, reservationId, flags.for), jobs.toReservationView),
      ),
    say: ({ expires_at }) => `until ${sayTime(cli.terminal, expires_at)}\n`,
  }),
  'release <reservation>': fileVerb({
    description: 'release a reservation, so that the queue continues',
    examples: ['concord reservations release resv_0197…'],
    ask: ({ scheduler, jobs }: OnFile, id: string) =>
      withId('reservation', id, (reservationId) =>
        mapAnswer(jobs.releaseReservation(scheduler, reservationId), jobs.toReservationView),
      ),
    say: () => 'released\n',
  }),
  list: fileVerb({
    description: 'list reservations, newest first',
    options: [['--limit <count>', 'maximum number of results (default: 50)', parseWhole, 50]],
    examples: ['concord reservations list --limit 5'],
    ask: ({ scheduler, jobs }: OnFile, { limit }: { limit: number }) =>
      mapAnswer(jobs.readReservations(scheduler, { limit }), (rows) => ({
        reservations: rows.map(jobs.toReservationView),
      })),
    say: ({ reservations: rows }) => (rows.length === 0 ? 'no reservations\n' : table(cli.terminal, columns, rows)),
  }),
}))

const columns = {
  reservation: ({ reservation_id }: ReservationView) => reservation_id,
  by: ({ reserved_by }: ReservationView) => reserved_by,
  status: ({ status }: ReservationView) => status.toLowerCase(),
  reserved: ({ reserved_at }: ReservationView, when: When) => when(reserved_at),
  until: ({ ended_at, expires_at }: ReservationView, when: When) => when(ended_at ?? expires_at),
}
