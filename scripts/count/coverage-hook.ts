/** Loaded before a server (`--import`): at SIGUSR2 it writes which functions of `src/` ran since the last time, by file. */
import { Session } from 'node:inspector/promises'
import { writeFileSync } from 'node:fs'

const session = new Session()
session.connect()
await session.post('Profiler.enable')
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
let count = 0

async function write(): Promise<void> {
  const { result } = await session.post('Profiler.takePreciseCoverage')
  const ran: Record<string, string[]> = {}
  for (const { url, functions } of result) {
    const path = /^file:.*?\/(src\/.*\.ts)$/.exec(url)?.[1]
    if (path === undefined || url.includes('/node_modules/')) continue
    const names = functions
      .filter(({ functionName, ranges }) => functionName !== '' && (ranges[0]?.count ?? 0) > 0)
      .map(({ functionName, ranges }) => `${functionName}@${ranges[0]?.startOffset}`)
    if (names.length > 0) ran[path] = names
  }
  count += 1
  writeFileSync(`${process.env['WALK_FOLDER']}/ran-${count}.json`, JSON.stringify(ran))
}
process.on('SIGUSR2', () => void write())
