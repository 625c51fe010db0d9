/** Holds the runtime to the schedules once at the start, and again until every schedule of the catalog has its workspace. */
import { type CommandScheduleDeps, syncCommandSchedules } from '#domains/command-schedules'
import type { Log } from './log.ts'
import { every, FINISHED } from './sweeps.ts'

const HOMELESS_MS = 2_000

export async function keepSchedules(deps: CommandScheduleDeps, log: Log): Promise<() => Promise<void>> {
  let told = ''
  const sync = async () => {
    const { arranged, removed, homeless, problems } = await syncCommandSchedules(deps)
    const waiting = homeless.join(', ')
    if (waiting !== '' && waiting !== told)
      log.warn({ homeless }, `no workspace yet for ${waiting}; they fire as soon as there is one`)
    told = waiting
    for (const problem of problems) log.warn({}, problem)
    if (removed.length > 0) log.info({ removed }, `no longer in the catalog, and ended: ${removed.join(', ')}`)
    log.debug({ arranged }, 'the schedules are kept')
    return waiting === '' ? FINISHED : undefined
  }
  // The first look belongs to the start; the database that fails it would fail everything else too.
  return (await sync()) === FINISHED ? () => Promise.resolve() : every(HOMELESS_MS, sync, log)
}
