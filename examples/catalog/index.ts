/** The example catalog: seven commands, ready for a project's `concord.config.ts`. */
import { join } from 'node:path'
import { type Project, registerRetry } from '@concordhq/concord'
import { defineRetryPolicy, retryableErrorClasses } from '@concordhq/concord/kernel'
import { bookHotel, bookHotelExample } from './book-hotel.ts'
import { draftBooking, draftBookingExample } from './draft-booking.ts'
import { generateReport, generateReportExample } from './generate-report.ts'
import { hotelVendor, type VendorOptions } from './hotel-vendor.ts'
import { publishReport, publishReportExample } from './publish-report.ts'
import { rankHotels, rankHotelsExample } from './rank-hotels.ts'
import { searchHotels, searchHotelsExample } from './search-hotels.ts'
import { syncSchedule, syncVendorData } from './sync-vendor-data.ts'

export { travelPreferences } from './travel-preferences.ts'

export type ExampleOptions = VendorOptions & {
  /** The folder of outgoing letters and of the copy of the vendor's rates. */
  readonly folder: string
}

export const ratesFile = (folder: string) => join(folder, 'vendor-rates.sqlite')

export function exampleCommands(options: ExampleOptions) {
  const vendor = hotelVendor(options)
  return {
    generateReport,
    publishReport: publishReport(options.folder),
    searchHotels: searchHotels(vendor),
    rankHotels,
    draftBooking: draftBooking(vendor),
    bookHotel: bookHotel(vendor),
    syncVendorData: syncVendorData(vendor, ratesFile(options.folder)),
  }
}

export function exampleCatalog(options: ExampleOptions): Project['catalog'] {
  return [...Object.values(exampleCommands(options)), syncSchedule, ...undoRetry(options)]
}

/** All undos share one retry policy. A program that does not want to wait replaces its pauses. */
function undoRetry({ backoffSeconds: backoff_seconds }: ExampleOptions): Project['catalog'] {
  const policy = { operation: 'compensation', retryable: retryableErrorClasses, requires_idempotency_key: true }
  return backoff_seconds ? [registerRetry(defineRetryPolicy({ ...policy, backoff_seconds }))] : []
}

/** A valid payload for each task. */
export const examplePayloads = {
  'Generate Report': generateReportExample,
  'Publish Report': publishReportExample,
  'Search Hotels': searchHotelsExample,
  'Rank Hotels': rankHotelsExample,
  'Draft Booking': draftBookingExample,
  'Book Hotel': bookHotelExample,
  'Sync Vendor Data': { dataset: 'rates' },
} as const
