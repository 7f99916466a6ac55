/* The election of a last block, for Spin: BLOCKS blocks over SLOTS slots (1 or 2), LAUNCHES launches, two pairs of
   scales. Each option is one step, so that Spin stores a state for each state of the model and no other. */

#define begins 0
#define collects 1
#define releases 2
#define tickets 3
#define acquires 4
#define looks 5
#define takes 6
#define publishes 7
#define rearms 8
#define leaves 9
#define done 10
#define QUIET (!b[_pid].raise && !b[_pid].scale && !b[_pid].rearm && !b[_pid].zero[0] && !b[_pid].zero[1])
#define FORGET b[_pid].ticket = 0; b[_pid].sum = 0; b[_pid].taken = 0; b[_pid].early[0] = 0; b[_pid].early[1] = 0
#define SLOT (_pid % SLOTS)

typedef Block {
  byte at; byte launch; byte ticket; byte sum; byte taken;
  bit raise; bit scale; bit rearm; bit zero[2]; byte early[2]
}
Block b[BLOCKS];
byte launch, left, counter, published, scales[2], maxima[2], stream_at;

active [BLOCKS] proctype block() {
end: do
  :: d_step { b[_pid].raise -> b[_pid].raise = 0; maxima[SLOT]++ }
  :: d_step { b[_pid].scale -> b[_pid].scale = 0; scales[(b[_pid].launch + 1) % 2] = b[_pid].launch + 1 }
  :: d_step { b[_pid].rearm -> b[_pid].rearm = 0; counter = 0 }
  :: d_step { b[_pid].zero[0] -> b[_pid].zero[0] = 0; maxima[0] = 0 }
  :: d_step { b[_pid].zero[1] -> b[_pid].zero[1] = 0; maxima[1] = 0 }
  :: d_step { b[_pid].at == begins && launch == b[_pid].launch ->
       assert(scales[launch % 2] == launch); b[_pid].at = collects }
  :: d_step { b[_pid].at == collects -> b[_pid].raise = 1; b[_pid].at = releases }
  :: d_step { b[_pid].at == releases && QUIET -> b[_pid].at = tickets }
  :: d_step { b[_pid].at == tickets && !b[_pid].early[0] -> b[_pid].early[0] = 1 + maxima[0] }
  :: d_step { b[_pid].at == tickets && SLOTS == 2 && !b[_pid].early[1] -> b[_pid].early[1] = 1 + maxima[1] }
  :: d_step { b[_pid].at == tickets -> b[_pid].ticket = counter; counter++; b[_pid].at = acquires }
  :: d_step { b[_pid].at == acquires -> b[_pid].early[0] = 0; b[_pid].early[1] = 0; b[_pid].at = looks }
  :: d_step { b[_pid].at == looks && b[_pid].ticket == BLOCKS - 1 -> b[_pid].ticket = 0; b[_pid].at = takes }
  :: d_step { b[_pid].at == looks && b[_pid].ticket != BLOCKS - 1 -> FORGET; b[_pid].at = leaves }
  :: d_step { b[_pid].at == takes ->
       b[_pid].sum = b[_pid].sum + maxima[b[_pid].taken]; b[_pid].zero[b[_pid].taken] = 1; b[_pid].taken++;
       if :: b[_pid].taken == SLOTS -> b[_pid].at = publishes :: else fi }
  :: d_step { b[_pid].at == publishes ->
       assert(b[_pid].sum == BLOCKS); published++; b[_pid].scale = 1; FORGET; b[_pid].at = rearms }
  :: d_step { b[_pid].at == rearms -> b[_pid].rearm = 1; b[_pid].at = leaves }
  :: d_step { b[_pid].at == leaves && QUIET ->
       left++; b[_pid].launch++; b[_pid].at = begins;
       if :: b[_pid].launch == LAUNCHES -> b[_pid].launch = 0; b[_pid].at = done :: else fi }
  od
}

active proctype stream() {
end: do
  :: d_step { stream_at == 0 && left == BLOCKS ->
       assert(published == 1 && counter == 0 && maxima[0] == 0 && maxima[1] == 0);
       left = 0; published = 0; stream_at = 1 }
  :: d_step { stream_at == 1 ->
       assert(scales[launch % 2] == launch); launch++; stream_at = 0;
       if :: launch == LAUNCHES -> launch = 0; stream_at = 2 :: else fi }
  od
}
