/** `concord reservations`: the slot beside the queue; while somebody has it, the queue starts nothing. */
import process from 'node:process'
import type { Command } from 'commander'
import type { StoredReservation } from '#app/scheduler'
import { formatDuration, type DurationMs } from '#kernel/duration'
import { showLine } from '#kernel/visible-text'
import { answer, type FileFlag, fileOption, type Jobs, parseTime, parseWhole, readId, withJobs } from './jobs-file.ts'
import { type Cli, formatTable } from './terminal.ts'

type ReserveFlags = FileFlag & { by?: string; for?: number; wait: number }

export function addReservations(program: Command, cli: Cli): void {
  const reservations = program.command('reservations').description('keep the queue from starting jobs for a time')
  fileOption(reservations.command('reserve'))
    .description('take the slot: what runs goes on, nothing new starts until it is released or has run out')
    .option('--by <who>', 'who has it (default: this process)')
    .option('--for <duration>', 'how long without a renewal (default: 5m)', parseTime)
    .option('--wait <duration>', 'how long to wait while somebody else has it (default: not at all)', parseTime, 0)
    .addHelpText('after', '\nExample:\n  $ concord reservations reserve --by maintenance --for 30m --wait 1m\n')
    .action(
      cli.handle((flags: ReserveFlags) =>
        withJobs(cli, flags, async (scheduler, jobs) => {
          const { stop } = cli.terminal
          const body = {
            reserved_by: flags.by ?? `process ${process.pid}`,
            ...(flags.for === undefined ? {} : { expires_in: shown(flags.for) }),
          }
          const sleep = (ms: number) => jobs.realWait(ms, stop)
          const made = await jobs.waitForReservation(scheduler, body, { timeoutMs: flags.wait, sleep, stop })
          return answer(cli, program, made, jobs.toReservationView, (row) => {
            const { reservation_id, expires_at } = jobs.toReservationView(row)
            cli.terminal.out(`${reservation_id}\n`)
            cli.terminal.err(
              `the queue waits until ${expires_at}, or \`concord reservations release ${reservation_id}\`\n`,
            )
          })
        }),
      ),
    )
  fileOption(reservations.command('renew <reservation>'))
    .description('keep a reservation for longer; it is never made shorter')
    .option('--for <duration>', 'how long from now (default: 5m)', parseTime)
    .addHelpText('after', '\nExample:\n  $ concord reservations renew resv_0197… --for 30m\n')
    .action(
      cli.handle((id: string, flags: FileFlag & { for?: number }) =>
        withJobs(cli, flags, (scheduler, jobs) => {
          const reservationId = readId('reservation', id)
          if (!reservationId.ok) return reservationId
          const renewed = jobs.renewReservation(scheduler, reservationId.value, flags.for)
          return answer(cli, program, renewed, jobs.toReservationView, (row) =>
            cli.terminal.out(`until ${jobs.toReservationView(row).expires_at}\n`),
          )
        }),
      ),
    )
  fileOption(reservations.command('release <reservation>'))
    .description('let the queue go on')
    .addHelpText('after', '\nExample:\n  $ concord reservations release resv_0197…\n')
    .action(
      cli.handle((id: string, flags: FileFlag) =>
        withJobs(cli, flags, (scheduler, jobs) => {
          const reservationId = readId('reservation', id)
          if (!reservationId.ok) return reservationId
          const released = jobs.releaseReservation(scheduler, reservationId.value)
          return answer(cli, program, released, jobs.toReservationView, () => cli.terminal.out('released\n'))
        }),
      ),
    )
  fileOption(reservations.command('list'))
    .description('reservations, newest first')
    .option('--limit <count>', 'how many at most (default: 50)', parseWhole, 50)
    .addHelpText('after', '\nExample:\n  $ concord reservations list --limit 5\n')
    .action(
      cli.handle((flags: FileFlag & { limit: number }) =>
        withJobs(cli, flags, (scheduler, jobs) =>
          answer(
            cli,
            program,
            jobs.readReservations(scheduler, { limit: flags.limit }),
            (rows) => ({ reservations: rows.map(jobs.toReservationView) }),
            (rows) => cli.terminal.out(rows.length === 0 ? 'no reservations\n' : tableOf(rows, jobs)),
          ),
        ),
      ),
    )
}

/** What the service reads is text, as from everybody else. */
function shown(ms: number): string {
  return formatDuration(ms as DurationMs)
}

function tableOf(rows: readonly StoredReservation[], { toReservationView }: Jobs): string {
  return formatTable(
    ['reservation', 'by', 'status', 'reserved', 'until'],
    rows
      .map(toReservationView)
      .map((row) => [
        row.reservation_id,
        showLine(row.reserved_by),
        row.status.toLowerCase(),
        row.reserved_at,
        row.ended_at ?? row.expires_at,
      ]),
  )
}
